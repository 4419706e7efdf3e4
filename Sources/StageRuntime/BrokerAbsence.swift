internal import Telemetry

/// Whether Kafka is away, as the loop found it last.
///
/// Logged as it begins and as it ends, each once a minute at most, and not at each look: what is kept
/// back of a repeated line is written up to a minute after the cure.
struct BrokerAbsence {
    /// What the last line says: with what calls fail; nil where a broker answers.
    private var logged: String?
    /// When the log said last that Kafka is away, and that it is not.
    private var loggedAt: [Bool: Int64] = [:]

    /// Takes in what a call failed with; nil where a broker answers.
    ///
    /// `now` is in milliseconds, of a clock that nobody sets. Where one call of many fails, the two
    /// come by turns: what lasts is logged when its minute is over.
    mutating func found(
        _ code: String?,
        _ log: Log,
        now: Int64 = WallClock.monotonicMilliseconds()
    ) {
        let isAway = code != nil
        guard code != logged,
            loggedAt[isAway].map({ now - $0 >= Log.repeatIntervalMilliseconds }) ?? true
        else {
            return
        }
        (logged, loggedAt[isAway]) = (code, now)
        if let code {
            log.warning("Kafka is away; waiting", ("code", .text(code)))
        } else {
            log.info("the broker answers")
        }
    }
}
