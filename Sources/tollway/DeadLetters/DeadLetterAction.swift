/// What somebody wants done with dead letters.
enum DeadLetterAction: String {
    /// Back to the topic where they failed.
    case replay
    /// To the archive, for good.
    case discard

    // Of what may be asked for.
    static let replayCountMaxMax = 100
    static let rateMax = 1_000_000
    /// Records a second of a replay where nobody says: what comes in meanwhile must not wait behind it.
    static let replayRateDefault = 1_000
}
