internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Why a dead letter that matches does not go back.
enum SkipReason: String, CaseIterable {
    case alreadyAccepted = "already_accepted"
    case orderRules = "order_rules"
    case identifierConflict = "identifier_conflict"
    case replayedBefore = "replayed_before"
    case forgotten = "forgotten"
    case newerThanPlan = "newer_than_plan"
    case leftOut = "left_out"
    case unknownTarget = "unknown_target"
    case notPatchable = "not_patchable"

    var sentence: String {
        switch self {
        case .alreadyAccepted: "Apple has accepted it: nothing is owed any more"
        case .orderRules:
            "a newer one is settled, which this one may not follow, or may undo; or an older one of the"
                + " same sale lies behind it: see RUNBOOK"
        case .identifierConflict:
            "Apple holds another report under its identifier: compare them, or leave out"
                + " requestIdentifier"
        case .replayedBefore: "replayed so often before, and failed again: see --replays-max"
        case .forgotten:
            "older than the memory of replays: it may have gone back already, see token trace"
        case .newerThanPlan:
            "written after the plan was made: it is another than the one that the plan means"
        case .leftOut: "too large for the dead letters: it lies where it came from"
        case .unknownTarget: "it names no topic that its stage reads"
        case .notPatchable: "its value is no JSON object that the patch could change"
        }
    }
}

/// ``FNV1a`` with a last mix: where a chance of one in 2^44 for a million of them is small enough.
enum TextDigest {
    static func of(_ text: String) -> UInt64 { mixed(FNV1a.hash(of: text.utf8)) }

    static func of(_ bytes: Span<UInt8>) -> UInt64 { mixed(FNV1a.hash(of: bytes)) }

    private static func mixed(_ hash: UInt64) -> UInt64 {
        (hash ^ hash >> 32) &* 0x9e37_79b9_7f4a_7c15
    }
}

/// Says of each dead letter to which topic it goes, or why it is skipped; without a request.
struct DeadLetterJudge {
    let prefix: String
    /// Replays of one record, this one not counted.
    let replayCountMax: Int
    /// The results of older dead letters are unknown; UNIX milliseconds.
    var forgottenBefore: Int64?
    /// The plan that is followed knows none that is younger; UNIX milliseconds.
    let plannedBefore: Int64?

    /// The clocks of the worker that wrote a dead letter and of the plan may differ by less.
    private static let clockSkewMilliseconds: Int64 = 600_000
    private static let conflictCode = Array(Rejection.conflict.code.utf8)

    enum Judgement {
        case go(Topic, LedgerQuestion?)
        case skip(SkipReason)
    }
}

extension DeadLetterJudge {
    init(_ order: DeadLetterOrder) {
        self.init(
            prefix: order.prefix,
            replayCountMax: order.replayCountMax,
            forgottenBefore: order.forgottenBefore,
            plannedBefore: order.plan.map { $0.madeAt + Self.clockSkewMilliseconds }
        )
    }

    /// Why it neither goes back nor is discarded, by when it was written, UNIX milliseconds.
    ///
    /// A topic that was made anew has other dead letters at the positions of an older plan.
    func skipReason(writtenAt time: Int64) -> SkipReason? {
        if time < forgottenBefore ?? .min {
            return .forgotten
        }
        return time > plannedBefore ?? .max ? .newerThanPlan : nil
    }

    /// `subject`: of the value as it goes, after a patch.
    func judge(_ deadLetter: DeadLetterRecord, in batch: RecordBatch, subject: DeadLetterSubject)
        -> Judgement
    {
        if let why = skipReason(writtenAt: deadLetter.record.timestampMilliseconds) {
            return .skip(why)
        }
        guard deadLetter.headers[.omittedByteCount].isAbsent else {
            return .skip(.leftOut)
        }
        guard let target = target(of: deadLetter, in: batch, subject: subject) else {
            return .skip(.unknownTarget)
        }
        let replayCount = deadLetter.headers.number(.replayCount, in: batch.arena.span)
        guard replayCount < Int64(replayCountMax) else {
            return .skip(.replayedBefore)
        }
        let code = batch.arena.span.extracting(deadLetter.headers[.code].indices)
        // Apple said so, and the ledger may know nothing of that report: under this identifier it
        // ends the same.
        if subject.requestIdentifier != nil, subject.failedIdentifier == nil,
            code.isEqual(to: Self.conflictCode)
        {
            return .skip(.identifierConflict)
        }
        guard target == .purchasesReceived else {
            return .go(target, Self.question(target, failedAt: deadLetter.failedAt, subject))
        }
        let question = Self.question(
            ofSale: batch.arena.span.extracting(deadLetter.record.key.indices),
            firstFailedAt: deadLetter.headers.time(.firstFailedAt, in: batch.arena.span)
                ?? deadLetter.failedAt,
            subject
        )
        return .go(target, question)
    }

    /// The topic that it was read from, if its stage reads it; for a debt that Apple refused, the
    /// topic for reports asked for by hand.
    func target(of deadLetter: DeadLetterRecord, in batch: RecordBatch, subject: DeadLetterSubject)
        -> Topic?
    {
        let name = deadLetter.headers.text(.topic, of: batch.arena)
        let origin = deadLetter.stage.sources.first { $0.name(prefix: prefix) == name }
        guard origin != nil, deadLetter.stage == .report, let request = subject.requestTopic else {
            return origin
        }
        return request
    }

    /// Whether Apple's answers decide; nil where it goes in any case.
    static func question(
        _ target: Topic,
        failedAt: Int64,
        _ subject: DeadLetterSubject
    ) -> LedgerQuestion? {
        switch target {
        case .reportsRequested:
            guard let id = subject.externalPurchaseID, let status = subject.status else {
                return nil
            }
            return .report(
                .init(
                    token: TextDigest.of(id),
                    identifier: subject.requestIdentifier.map { TextDigest.of($0.lowercased()) },
                    failedIdentifier: subject.failedIdentifier.map {
                        TextDigest.of($0.lowercased())
                    },
                    content: AcceptedReports.Content(
                        status: status,
                        hash: subject.contentHash
                    ),
                    since: subject.tokenCreationDate
                )
            )
        case .accountTokensRequested:
            // The id of a signed transaction that was not verified is not trusted.
            guard let id = subject.originalTransactionID, let value = subject.appAccountToken else {
                return nil
            }
            return .accountToken(
                .init(
                    transaction: TextDigest.of(id),
                    value: TextDigest.of(value.lowercased()),
                    failedAt: failedAt,
                    since: subject.requestedAt
                )
            )
        default:
            // A notice is Apple's own word, and may ask for the next month's report. A token that
            // Apple has accepted a report for is reported no second time, and its sales wait for it.
            return nil
        }
    }

    /// Whether the ledger of sales decides; nil where a sale goes in any case.
    ///
    /// A buy or a refund undoes nothing: where it was settled since, it is a repeat or a conflict.
    /// `key`: of the record.
    static func question(
        ofSale key: Span<UInt8>,
        firstFailedAt: Int64,
        _ subject: DeadLetterSubject
    ) -> LedgerQuestion? {
        guard subject.saleKind?.isChange == true, let lineItemID = subject.lineItemID else {
            return nil
        }
        return .change(
            .init(
                purchaseKey: TextDigest.of(key),
                lineItemID: TextDigest.of(lineItemID),
                environment: subject.environment,
                appAppleID: subject.appAppleID,
                bundleID: subject.bundleID,
                receivedAt: LedgerQuestion.Change.receivedAt(
                    stated: subject.receivedAt,
                    firstFailedAt: firstFailedAt
                )
            )
        )
    }
}
