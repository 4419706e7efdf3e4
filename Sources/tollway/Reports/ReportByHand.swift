internal import AppStoreAPI
internal import StageRuntime
internal import TokenDomain

/// A report that somebody asks for, held against the very rules of `report` before it is written.
struct ReportByHand {
    let request: ReportRequested
    /// What report knows of the token; nil where it knows nothing.
    let account: TokenAccount?
    let deadlineDays: Int
    let now: Timestamp

    /// Why it would be refused; a code that is counted, and a sentence.
    struct Refusal: Equatable {
        var code: String
        var sentence: String
    }

    /// A status, and why it may not follow; nil where it may.
    struct Rule: Equatable {
        var status: ReportStatus
        var because: String?
    }

    /// Nil where it may be sent.
    var refusal: Refusal? {
        if let because = Self.because(request.status, account) {
            return Refusal(code: "request.status_order", sentence: because)
        }
        return switch absorbed.absorption {
        case .owed: nil
        case .refused(let fault), .conflict(let fault):
            Refusal(code: fault.code, sentence: fault.message)
        case .alreadyReported:
            Refusal(
                code: "request.already_accepted",
                sentence: "Apple has accepted this very report"
            )
        case .underWay:
            Refusal(code: "request.under_way", sentence: "this very report is under way")
        case .repeated, .ownerConflict, .seen, .promoted, .promotedLate, .noticeForSeen, .parked,
            .guarded, .noted, .unknownSubtype:
            preconditionFailure("no request for a report is absorbed so")
        }
    }

    /// The report that it would become, as far as nothing else comes before it.
    var intent: ReportIntent? {
        let account = absorbed.account
        return account.line.joined ?? account.current
    }

    /// Every status, in Apple's order.
    var rules: [Rule] {
        ReportStatus.allCases.map { .init(status: $0, because: Self.because($0, account)) }
    }

    /// The account as it would be, by the stage's own code.
    private var absorbed: (account: TokenAccount, absorption: Absorption) {
        var account =
            account ?? TokenAccount(externalPurchaseID: request.externalPurchaseID, touchedAt: now)
        // Behind every request there is.
        let origin = RecordOrigin(topic: ReportAsked.topicIndex, partition: 0, offset: .max)
        let absorption = account.absorb(
            request,
            origin: origin,
            time: nil,
            now: now,
            policy: ReportPolicy(
                deadlineDays: Int64(deadlineDays),
                requestIdentifier: ReportPolicy.identifier,
                contentHash: ReportPolicy.lineItemsHash
            )
        )
        return (account, absorption)
    }

    private static func because(_ status: ReportStatus, _ account: TokenAccount?) -> String? {
        if status == .unrecognizedToken, account?.isKnown == true || account?.role == .seen {
            return "we have this token: UNRECOGNIZED_TOKEN would be untrue"
        }
        let hasDuplicates = account?.tokenType?.hasDuplicates ?? (account?.isKnown != true)
        if status == .duplicateToken, !hasDuplicates {
            return "DUPLICATE_TOKEN is for ACQUISITION and SERVICES"
        }
        let last = account?.lastAccepted
        return NextStatus.mayFollow(lastAccepted: last, requested: status)
            ? nil : "\(status.rawValue) may not follow \(last?.rawValue ?? "nothing")"
    }
}
