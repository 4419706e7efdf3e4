internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The file of exchange rates, read at start and whenever it changes.
///
/// A file that cannot be read leaves the rates that were read before in force, or none: what needs no
/// rate, or has one, must not wait for it.
final class RatesFile: RateSource {
    private let path: String
    private let log: Log
    private let health: Health?
    private(set) var rates = ExchangeRates.none
    /// Of the file that is in force; nil: it is to be read.
    private var version: FileVersion?
    /// Of a file without its last line end: it is taken once it is found the same again.
    private var unfinished: FileVersion?

    init(path: String, log: Log, health: Health? = nil) {
        self.path = path
        self.log = log
        self.health = health
        _ = read(FileVersion(path))
    }

    func refresh() -> Bool {
        let newest = FileVersion(path)
        guard newest != version else {
            return false
        }
        return read(newest)
    }

    private func read(_ newest: FileVersion?) -> Bool {
        do throws(ConfigurationFault) {
            let found = try ExchangeRatesFile.load(path)
            guard found.endsInLineEnd || unfinished != nil && newest == unfinished else {
                (version, unfinished) = (nil, newest)
                health?.setCondition("rates", "the last line has no line end: is it still written?")
                return false
            }
            guard !found.isEmpty || rates.isEmpty else {
                version = nil
                health?.setCondition("rates", "the file has none: those read before are in force")
                return false
            }
            rates = found
            version = newest
            health?.setCondition("rates", nil)
            log.info("the exchange rates were read", ("rates", .count(rates.count)))
            return true
        } catch {
            // What is mended may look the same: permissions are no part of a version.
            version = nil
            health?.setCondition("rates", error.sentence)
            log.limited(
                .error,
                "the exchange rates cannot be read; those read before, or none, are in force",
                ("because", .text(error.sentence))
            )
            return false
        }
    }

    /// Has the file read again at the next look, whether or not it seems to have changed.
    func reload() {
        version = nil
    }
}

/// Without a file: only sales in a reporting currency, or with a rate of their own, need none.
final class NoRates: RateSource {
    let rates = ExchangeRates.none

    func refresh() -> Bool { false }
}
