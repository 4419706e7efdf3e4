/// The platform's exchange rates: a CSV file, `date,from,to,rate`, one a line.
///
///     2026-03-01,ISK,EUR,0.0068
///
/// `date` is an ISO day (UTC). Blank lines, lines that begin with `#` and a line of the four names
/// are skipped, fields may stand in quotes, and a byte order mark may come first: spreadsheets write
/// so. See ``endsInLineEnd``: a file that is cut short may end in a number that is.
package struct ExchangeRates: Sendable {
    /// No rate at all.
    package static let none = ExchangeRates()
    /// Apple takes a rate within 48 hours of the sale.
    package static let distanceMax = Milliseconds.hours(48)

    /// What is wrong with the file: the first line that is.
    package struct Fault: Error, Equatable, Sendable {
        package var line: Int
        package var message: String
    }

    private struct Pair: Hashable {
        var from: AlphaCode
        var to: AlphaCode
    }

    private struct Entry {
        var day: CalendarDay
        var rate: ExchangeRate
    }

    /// By pair, in order of days, each day once.
    private var entries: [Pair: [Entry]] = [:]

    /// False: the last line may be cut inside its number.
    package private(set) var endsInLineEnd = true

    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]
    private static let names = ["date", "from", "to", "rate"]

    private init() {}

    /// Reads a file.
    ///
    /// Of two lines for the same day and pair the later one counts. A job that divides writes more
    /// digits than Apple takes: such a rate is rounded to ``ExchangeRate/digitCountMax`` of them.
    package init(csv text: [UInt8]) throws(Fault) {
        let mark = text.starts(with: Self.byteOrderMark) ? Self.byteOrderMark.count : 0
        let lines = text.dropFirst(mark).split(separator: 0x0a, omittingEmptySubsequences: false)
        endsInLineEnd = lines.last?.isEmpty ?? true
        for (index, bytes) in lines.enumerated() {
            let line = String(decoding: bytes, as: UTF8.self)
                .split(separator: ",", omittingEmptySubsequences: false)
                .map(Self.trimmed)
            if line.count == 1, line[0].isEmpty || line[0].hasPrefix("#") { continue }
            if line.map({ $0.lowercased() }) == Self.names || line[0].hasPrefix("#") { continue }
            try add(line, index + 1)
        }
        for pair in entries.keys {
            entries[pair] = entries[pair].map(Self.ordered)
        }
    }

    /// Without white space around it, and without the quotes that it may stand in.
    private static func trimmed(_ field: Substring) -> Substring {
        var field = field
        while let last = field.last, last == " " || last == "\r" { field.removeLast() }
        while field.first == " " { field.removeFirst() }
        let isQuoted = field.count > 1 && field.first == "\"" && field.last == "\""
        return isQuoted ? field.dropFirst().dropLast() : field
    }

    private mutating func add(_ line: [Substring], _ number: Int) throws(Fault) {
        guard line.count == 4 else {
            throw Fault(line: number, message: "it has \(line.count) fields, not date,from,to,rate")
        }
        guard let day = CalendarDay(iso: line[0]) else {
            throw Fault(line: number, message: "the date is no day as 2026-03-01")
        }
        guard let from = AlphaCode(String(line[1])), let to = AlphaCode(String(line[2])) else {
            throw Fault(line: number, message: "a currency is not three capital letters")
        }
        let rate: ExchangeRate
        do throws(ExchangeRate.Fault) {
            rate = try ExchangeRate(utf8: Array(line[3].utf8), isRounded: true)
        } catch {
            let message =
                switch error {
                case .notANumber, .notPositive: "the rate is no number above zero"
                case .tooManyDigits:
                    "the rate is too large, or needs more than \(ExchangeRate.scaleMax) decimals"
                }
            throw Fault(line: number, message: message)
        }
        entries[Pair(from: from, to: to), default: []].append(Entry(day: day, rate: rate))
    }

    private static func ordered(_ entries: [Entry]) -> [Entry] {
        var ordered: [Entry] = []
        for (_, entry) in entries.enumerated().sorted(by: {
            ($0.element.day, $0.offset) < ($1.element.day, $1.offset)
        }) {
            if ordered.last?.day == entry.day {
                ordered.removeLast()
            }
            ordered.append(entry)
        }
        return ordered
    }

    package var isEmpty: Bool { entries.isEmpty }
    /// Of all pairs and days.
    package var count: Int { entries.values.reduce(0) { $0 + $1.count } }

    /// The newest rate whose day begins within ``distanceMax`` of a sale.
    package func rate(from: AlphaCode, to: AlphaCode, at date: Timestamp) -> ExchangeRate? {
        guard let entries = entries[Pair(from: from, to: to)] else {
            return nil
        }
        // The first entry that lies too far ahead; the one before it is the newest that may count.
        let latest = date + Self.distanceMax
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].day.start > latest {
                high = middle
            } else {
                low = middle + 1
            }
        }
        guard low > 0, entries[low - 1].day.start + Self.distanceMax >= date else {
            return nil
        }
        return entries[low - 1].rate
    }
}

/// The currency of a line item's amounts, and what the pricing currency is worth in it.
package struct ReportingTerms: Hashable, Sendable {
    package var currency: AlphaCode
    /// Nil where the sale was made in it.
    package var rate: ExchangeRate?

    package init(currency: AlphaCode, rate: ExchangeRate?) {
        self.currency = currency
        self.rate = rate
    }

    /// What a restated buy is reported in: as before, unless what decides it changed; to say what it is
    /// reported in changes nothing.
    ///
    /// - Returns: nil as of a buy that is new.
    package static func of(
        _ restated: PurchaseEvent,
        insteadOf sale: PurchaseEvent,
        in terms: ReportingTerms,
        rates: ExchangeRates
    ) -> ReportingTerms? {
        let isSame =
            restated.pricingCurrency == sale.pricingCurrency
            && [sale.reportingCurrency, terms.currency].contains(restated.reportingCurrency)
            && [sale.exchangeRate, terms.rate].contains(restated.exchangeRate)
        return isSame ? terms : of(restated, rates: rates)
    }

    /// What a buy is reported in: its own currency where Apple takes it; else what the event says;
    /// else the first currency that has a rate.
    ///
    /// - Returns: nil where a rate is missing, which the file may have tomorrow.
    package static func of(
        _ sale: PurchaseEvent,
        rates: ExchangeRates,
        codes: SalesCodes = .current
    ) -> ReportingTerms? {
        guard let pricing = sale.pricingCurrency, let date = sale.creationDate else {
            preconditionFailure("a buy without currency or date does not pass the rules")
        }
        if codes.reportingCurrencies.contains(pricing) {
            return ReportingTerms(currency: pricing, rate: nil)
        }
        if let currency = sale.reportingCurrency, let rate = sale.exchangeRate {
            return ReportingTerms(currency: currency, rate: rate)
        }
        let candidates = sale.reportingCurrency.map { [$0] } ?? codes.convertedCurrencies
        for currency in candidates {
            if let rate = rates.rate(from: pricing, to: currency, at: date) {
                return ReportingTerms(currency: currency, rate: rate)
            }
        }
        return nil
    }

    func convert(_ amount: Milliunits) -> Milliunits? {
        rate.map { $0.convert(amount) } ?? amount
    }
}
