internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// A change to dead letters that somebody asked for.
struct DeadLetterOrder {
    static let replayCountMaxDefault = 2
    private static let patchByteCountMax = 64 << 10

    var action: DeadLetterAction
    var configuration: Configuration
    var filter: DeadLetterFilter
    /// Who asked for it, and why.
    var hand: HandOrder
    /// Only these, where a plan was given.
    var plan: ReplayPlanFile?
    var patch: MergePatch?
    var replayCountMax = Self.replayCountMaxDefault
    /// Dead letters a second, where somebody said.
    var rate: Int?
    /// Dead letters a second; nil: as fast as Kafka takes them.
    var pace: Int? { rate ?? (action == .replay ? DeadLetterAction.replayRateDefault : nil) }
    /// Of those that may go, the oldest so many.
    var countMax: Int?
    /// Sent first, and looked after.
    var canaryCount: Int?
    /// Of the dead letters that the stage has read again, how many may have failed again.
    var failureRatioMax: Double?

    /// The results of older dead letters are unknown; UNIX milliseconds.
    var forgottenBefore: Int64?

    var prefix: String { configuration.topicPrefix }
    /// Names the change in headers, progress and audit.
    var runID: String { hand.id }

    /// Where a discarded dead letter goes is one place; a replayed one goes where it failed.
    func targets(of stage: Worker) -> [Topic] {
        switch action {
        case .replay: stage.sources
        case .discard: [.deadLetterArchive]
        }
    }

    init(
        _ action: DeadLetterAction,
        _ invocation: Invocation,
        _ configuration: Configuration,
        now: Timestamp
    ) throws(CommandFailure) {
        self.action = action
        self.configuration = configuration
        filter = try DeadLetterFilter(invocation, configuration, now: now)
        hand = try HandOrder(action.rawValue, why: invocation.value("--why"), now: now)
        if invocation.has("--rate") {
            rate = try invocation.integer("--rate", default: 1, in: 1...DeadLetterAction.rateMax)
        }
        if invocation.has("--max") {
            countMax = try invocation.integer("--max", default: 1, in: 1...Int.max)
        }
        if invocation.has("--canary") {
            canaryCount = try invocation.integer("--canary", default: 1, in: 1...100_000)
        }
        replayCountMax = try invocation.integer(
            "--replays-max",
            default: Self.replayCountMaxDefault,
            in: 1...DeadLetterAction.replayCountMaxMax
        )
        if let text = invocation.value("--stop-on-failure-ratio") {
            failureRatioMax = try Self.ratio(text)
        } else if canaryCount != nil {
            failureRatioMax = 0.1
        }
        if let text = invocation.value("--patch") {
            patch = try Self.patch(text)
        }
    }

    private static func ratio(_ text: String) throws(CommandFailure) -> Double {
        guard let ratio = Double(text), ratio >= 0, ratio <= 1 else {
            throw .usage(
                "bad_value",
                "--stop-on-failure-ratio is \"\(text)\": it must be from 0 to 1, such as 0.05"
            )
        }
        return ratio
    }

    /// JSON, or `@FILE` with it.
    private static func patch(_ text: String) throws(CommandFailure) -> MergePatch {
        var bytes = Array(text.utf8)
        if text.hasPrefix("@") {
            bytes = try InputFile.read(String(text.dropFirst()), byteCountMax: patchByteCountMax)
        }
        guard bytes.count <= patchByteCountMax else {
            throw .usage("bad_value", "--patch has more than \(patchByteCountMax) bytes")
        }
        do {
            return try MergePatch(bytes)
        } catch {
            throw .usage(
                "bad_value",
                "--patch must be a JSON object of the members to change, null to remove one, such"
                    + " as '{\"bundleId\":null}': \(error.message)"
            )
        }
    }
}
