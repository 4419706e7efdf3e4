internal import Telemetry

/// Whether Kafka is away, as the loop found it last.
///
/// Logged as it begins and as it ends, not at each look: what was kept back of a repeated line is
/// written up to a minute after the cure.
struct BrokerAbsence {
    private var isAway = false

    /// `code` is what a call failed with; nil where a broker answers.
    mutating func found(_ code: String?, _ log: Log) {
        guard isAway != (code != nil) else {
            return
        }
        isAway = code != nil
        // Limited: where one call of many fails, the two come by turns.
        if let code {
            log.limited(.warning, "Kafka is away; waiting", ("code", .text(code)))
        } else {
            log.limited(.info, "the broker answers")
        }
    }
}
