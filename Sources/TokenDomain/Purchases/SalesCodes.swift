/// The currencies and countries that a sale may name: `sales-codes.txt`, which carries a version.
///
/// Apple's list of reporting currencies changes; the file is data, so that a change of it is no
/// change of the rules.
///
/// Source: Apple, "reportingCurrency", "pricingCurrency", "taxCountry"
package struct SalesCodes: Sendable {
    package static let current = SalesCodes(text: PackageResources.sales_codes_txt)

    /// When Apple's pages were last compared with the file.
    package private(set) var version = ""
    /// Currencies that a report may be in.
    package private(set) var reportingCurrencies: Set<AlphaCode> = []
    /// Currencies that all others are converted to, the preferred one first.
    package private(set) var convertedCurrencies: [AlphaCode] = []
    /// Currencies that a customer may be charged in.
    package private(set) var currencies: Set<AlphaCode> = []
    package private(set) var countries: Set<AlphaCode> = []

    /// - Parameter text: the file, which is part of the program: what is wrong in it is our fault.
    init(text: [UInt8]) {
        for line in text.split(separator: UInt8(ascii: "\n")) where line.first != UInt8(ascii: "#")
        {
            let words = String(decoding: line, as: UTF8.self).split(separator: " ")
            guard let name = words.first else {
                continue
            }
            if name == "version" {
                version = words.dropFirst().joined()
                continue
            }
            let codes = words.dropFirst().map { word in
                guard let code = AlphaCode(String(word)) else {
                    preconditionFailure("sales-codes.txt holds codes of three capital letters")
                }
                return code
            }
            switch name {
            case "reporting": reportingCurrencies.formUnion(codes)
            case "converted": convertedCurrencies += codes
            case "currency": currencies.formUnion(codes)
            case "country": countries.formUnion(codes)
            default: preconditionFailure("sales-codes.txt has lists of four names")
            }
        }
        precondition(!version.isEmpty, "sales-codes.txt says its version")
    }
}
