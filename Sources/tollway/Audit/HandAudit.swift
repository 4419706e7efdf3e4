internal import StageRuntime
internal import Telemetry

/// A value of `<prefix>audit.v1` about a change by hand: that it begins, and then its result.
protocol HandAudit {
    /// Behind the prefix, the transactional id of all commands of its kind.
    static var transactionalName: String { get }

    var order: HandOrder { get }
    var state: AuditState { get set }

    func append(to arena: inout [UInt8], at now: Int64)
}

extension AuditState {
    /// As a part of the audit.
    var part: (number: Int, state: String) { (self == .running ? 1 : 2, rawValue) }
}

extension HandAudit {
    /// Makes a change between the two parts: nothing is changed that is not on record.
    mutating func record(
        _ configuration: Configuration,
        _ change: (inout Self) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        try store(configuration)
        do throws(CommandFailure) {
            try change(&self)
            state = .finished
        } catch {
            state = .stopped
            do throws(CommandFailure) {
                try store(configuration)
            } catch {
                // Why it stopped is the better answer; the audit has the order.
            }
            throw error
        }
        try store(configuration)
    }

    private func store(_ configuration: Configuration) throws(CommandFailure) {
        try LoneRecord.audit(runID: order.id, transactionalName: Self.transactionalName)
            .store(configuration) { arena in
                append(to: &arena, at: WallClock.nowMilliseconds())
            }
    }
}
