package import TokenDomain

/// The file of `TOLLWAY_EXCHANGE_RATES_FILE`.
package enum ExchangeRatesFile {
    package static let byteCountMax = 64 << 20

    /// - Throws: ``ConfigurationFault/unreadableFile(setting:path:because:)`` with the first line that
    ///   is wrong: a part of the file is never taken for the whole.
    package static func load(_ path: String) throws(ConfigurationFault) -> ExchangeRates {
        let setting = Setting.exchangeRatesFile.fullName
        let bytes = try BoundedFile.read(path: path, setting: setting, byteCountMax: byteCountMax)
        do throws(ExchangeRates.Fault) {
            return try ExchangeRates(csv: bytes)
        } catch {
            throw .unreadableFile(
                setting: setting,
                path: path,
                because: "line \(error.line): \(error.message)"
            )
        }
    }
}
