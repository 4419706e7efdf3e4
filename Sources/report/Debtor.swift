internal import TokenDomain
internal import TokenWire

/// What lies under one key of the state: a token's account, or what is owed to a transaction.
///
/// Indirect, for it is handed around, and an account has thirty members to copy.
indirect enum Debtor: Equatable {
    case token(TokenAccount)
    case transaction(AccountTokenDebt)

    /// The first byte of a transaction's key: it never occurs in UTF-8, so no token's id has it.
    private static let transactionMark: UInt8 = 0xff

    static func key(of id: TokenID) -> [UInt8] {
        Array(id.text.utf8)
    }

    /// With its app: an id may be another transaction's at another app, which has its own key.
    static func key(ofTransaction id: String, lane: Lane) -> [UInt8] {
        let name = "\(lane.environment.rawValue)/\(lane.appAppleID)/\(id)"
        return [transactionMark] + Array(name.utf8)
    }

    /// Reads a value of the changelog.
    ///
    /// - Throws: where it is none of ours.
    init(reading value: [UInt8], key: [UInt8]) throws(WireFault) {
        self =
            key.first == Self.transactionMark
            ? .transaction(try AccountTokenDebt(reading: value.span))
            : .token(try TokenAccount(reading: value.span))
    }

    /// Reads a value of the store, which takes in only what could be read from the changelog.
    init(_ value: [UInt8], key: [UInt8]) {
        do throws(WireFault) {
            try self.init(reading: value, key: key)
        } catch {
            preconditionFailure("a value of report's state cannot be read: \(error.message)")
        }
    }

    /// Reads the value of a report that waits in line, likewise.
    static func waiting(_ value: [UInt8]) -> ReportIntent {
        do throws(WireFault) {
            return try WaitingReport.read(value.span)
        } catch {
            preconditionFailure("a value of report's state cannot be read: \(error.message)")
        }
    }

    func write(to arena: inout [UInt8]) {
        switch self {
        case .token(let account): account.write(to: &arena)
        case .transaction(let debt): debt.write(to: &arena)
        }
    }

    var attention: TokenAccount.Attention {
        switch self {
        case .token(let account): account.attention
        case .transaction(let debt): debt.attention
        }
    }

    /// What failed for the time being and waits to be tried again, and until when Apple wants it.
    var retry: (queue: SendQueue, deadline: Timestamp)? {
        switch self {
        case .token(let account):
            guard let current = account.current, current.nextAttemptAt != nil,
                let lane = account.lane
            else {
                return nil
            }
            return (.reports(of: lane), current.deadline)
        case .transaction(let debt):
            guard let current = debt.current, debt.nextAttemptAt != nil else {
                return nil
            }
            return (SendQueue(endpoint: .accountTokens, lane: debt.lane), current.requestedAt)
        }
    }

    /// Whether reports wait behind the one under way.
    var hasLine: Bool {
        switch self {
        case .token(let account): !account.line.isEmpty
        case .transaction: false
        }
    }

    /// Goes with its next request.
    var trace: TraceParent? {
        switch self {
        case .token(let account): account.trace
        case .transaction(let debt): debt.current?.trace
        }
    }

    /// The queue it stands in; nil where it is not ready.
    var queue: SendQueue? {
        guard case .ready(let lane, _) = attention else {
            return nil
        }
        switch self {
        case .token: return SendQueue(endpoint: .reports, lane: lane)
        case .transaction: return SendQueue(endpoint: .accountTokens, lane: lane)
        }
    }
}
