internal import Glibc
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The file of exchange rates, read at start and whenever it changes.
///
/// A file that cannot be read leaves the rates that were read before in force, or none: what needs no
/// rate, or has one, must not wait for it.
final class RatesFile: RateSource {
    private struct Version: Equatable {
        var device: UInt
        var inode: UInt
        var size: Int
        var seconds: Int
        var nanoseconds: Int
    }

    private let path: String
    private let log: Log
    private let health: Health?
    private(set) var rates = ExchangeRates.none
    private var version: Version?

    init(path: String, log: Log, health: Health? = nil) {
        self.path = path
        self.log = log
        self.health = health
        version = Self.version(of: path)
        _ = read()
    }

    private static func version(of path: String) -> Version? {
        var information = stat()
        guard unsafe stat(path, &information) == 0 else {
            return nil
        }
        return Version(
            device: UInt(information.st_dev),
            inode: UInt(information.st_ino),
            size: Int(information.st_size),
            seconds: Int(information.st_mtim.tv_sec),
            nanoseconds: Int(information.st_mtim.tv_nsec)
        )
    }

    func refresh() -> Bool {
        let newest = Self.version(of: path)
        guard newest != version else {
            return false
        }
        version = newest
        return read()
    }

    private func read() -> Bool {
        do throws(ConfigurationFault) {
            rates = try ExchangeRatesFile.load(path)
            health?.setCondition("rates", nil)
            return true
        } catch {
            health?.setCondition("rates", error.sentence)
            log.limited(
                .error,
                "the exchange rates cannot be read; those read before, or none, are in force",
                ("because", .text(error.sentence))
            )
            return false
        }
    }
}

/// Without a file: only sales in a reporting currency, or with a rate of their own, need none.
final class NoRates: RateSource {
    let rates = ExchangeRates.none

    func refresh() -> Bool { false }
}
