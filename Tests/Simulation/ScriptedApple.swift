package import AppStoreAPI
package import TokenDomain

/// Apple's report API in memory, with a script for what goes wrong.
///
/// It keeps the two rules that everything depends on: an identifier is accepted once, and only what
/// was accepted can be retrieved.
package final class ScriptedApple: AppleClient {
    /// The result of one request.
    package enum Fate: Equatable, Sendable {
        /// Apple acts and answers.
        case answered
        /// Apple acts, and the answer is lost.
        case answerLost
        /// The request is lost on its way, and we cannot know.
        case requestLost
        /// Nothing left us.
        case notSent
        /// There is no key to sign it with.
        case noKey
        /// Apple does not act, and answers with this status.
        case status(Int, retryAfter: Timestamp? = nil, code: Int64? = nil)
        /// A proxy answers in Apple's place, with this status and a page.
        case page(Int)
        /// Apple refuses.
        case refused([AppleError])
        /// No answer ever.
        case silence
    }

    package struct Held: Equatable, Sendable {
        package var externalPurchaseID: String
        package var status: String
        package var body: ReportRequestBody

        package init(externalPurchaseID: String, status: String, body: ReportRequestBody) {
            self.externalPurchaseID = externalPurchaseID
            self.status = status
            self.body = body
        }
    }

    package struct Call: Equatable, Sendable {
        package var lane: Lane
        package var isSend: Bool
        package var requestIdentifier: String
        package var externalPurchaseID: String
        package var at: Timestamp
        package var trace: TraceParent?
    }

    /// Decides each request's fate, in the order in which they are submitted.
    package var script: (Call) -> Fate = { _ in .answered }
    /// Why what has no answer has none.
    package var failure: TransportFailure?
    /// From submit to answer.
    package var latency = Milliseconds(0)
    package private(set) var calls: [Call] = []
    /// What was accepted, by identifier, shared by every client of one Apple.
    package let store: Store
    package private(set) var reloads: [Int64] = []
    private var answers: [(tag: UInt64, reply: AppleReply, at: Timestamp)] = []

    package final class Store {
        package private(set) var held: [String: Held] = [:]
        /// In the order of acceptance.
        package private(set) var accepted: [Held] = []
        /// The account token of each transaction.
        package var accountTokens: [String: String] = [:]

        package init() {}

        package func accept(_ report: Held, as identifier: String) -> Bool {
            guard held[identifier] == nil else {
                return false
            }
            held[identifier] = report
            accepted.append(report)
            return true
        }

        /// The statuses accepted for each token.
        package var statuses: [String: [String]] {
            accepted.reduce(into: [:]) { $0[$1.externalPurchaseID, default: []].append($1.status) }
        }
    }

    package init(store: Store = Store()) {
        self.store = store
    }

    package var wakeDescriptor: Int32 { -1 }
    package var nextAnswer: Timestamp? { answers.map(\.at).min() }

    package func submit(_ request: AppleRequest, now: Timestamp) {
        switch request.action {
        case .sendReport(let body):
            let report = JSONValue(body.bytes)
            let call = Call(
                lane: request.lane,
                isSend: true,
                requestIdentifier: report?["requestIdentifier"]?.text ?? "",
                externalPurchaseID: report?["externalPurchaseId"]?.text ?? "",
                at: now,
                trace: request.trace
            )
            answer(request.tag, call, now: now) { self.send(body, report, call) }
        case .retrieveReport(let identifier, let sent):
            let call = Call(
                lane: request.lane,
                isSend: false,
                requestIdentifier: identifier,
                externalPurchaseID: JSONValue(sent.bytes)?["externalPurchaseId"]?.text ?? "",
                at: now,
                trace: request.trace
            )
            answer(request.tag, call, now: now) { self.retrieve(identifier, sent) }
        case .setAccountToken(let token, let transactionID):
            let call = Call(
                lane: request.lane,
                isSend: true,
                requestIdentifier: token,
                externalPurchaseID: transactionID,
                at: now,
                trace: request.trace
            )
            answer(request.tag, call, now: now) {
                self.store.accountTokens[transactionID] = token
                return AppleReply(transport: .answered(status: 200))
            }
        }
    }

    package func collect(now: Timestamp) -> [(tag: UInt64, reply: AppleReply)] {
        let due = answers.filter { $0.at <= now }
        answers.removeAll { $0.at <= now }
        return due.map { ($0.tag, $0.reply) }
    }

    /// What it answers comes as long after its request as it would have.
    package func clockWasSetBack(by setBack: Milliseconds) {
        for index in answers.indices {
            answers[index].at = answers[index].at + -setBack
        }
    }

    package func abandon(tag: UInt64) {
        answers.removeAll { $0.tag == tag }
    }

    package func reloadKey(appAppleID: Int64) {
        reloads.append(appAppleID)
    }

    package func startWithFirstKey(appAppleID: Int64) {}

    // MARK: Apple's side

    private func answer(
        _ tag: UInt64,
        _ call: Call,
        now: Timestamp,
        _ act: () -> AppleReply
    ) {
        calls.append(call)
        let reply: AppleReply
        switch script(call) {
        case .answered:
            reply = act()
        case .answerLost:
            _ = act()
            reply = AppleReply(transport: .doubtful, failure: failure)
        case .requestLost:
            reply = AppleReply(transport: .doubtful, failure: failure)
        case .notSent:
            reply = AppleReply(transport: .notSent, failure: failure)
        case .noKey:
            reply = AppleReply(transport: .noKey)
        case .status(let status, let retryAfter, let code):
            reply = AppleReply(
                transport: .answered(status: status),
                errors: code.map { [AppleError(code: $0, fieldName: nil, lineItemID: nil)] },
                retryAfter: retryAfter
            )
        case .page(let status):
            reply = AppleReply(transport: .answered(status: status), isPage: true)
        case .refused(let errors):
            reply = AppleReply(transport: .answered(status: 400), errors: errors)
        case .silence:
            return
        }
        answers.append((tag, reply, now + latency))
    }

    private func send(_ body: ReportRequestBody, _ report: JSONValue?, _ call: Call) -> AppleReply {
        let held = Held(
            externalPurchaseID: call.externalPurchaseID,
            status: report?["status"]?.text ?? "",
            body: body
        )
        guard store.accept(held, as: call.requestIdentifier) else {
            return AppleReply(
                transport: .answered(status: 400),
                errors: [AppleError(code: 1, fieldName: "requestIdentifier", lineItemID: nil)]
            )
        }
        return AppleReply(
            transport: .answered(status: 200),
            acknowledged: call.requestIdentifier
        )
    }

    private func retrieve(_ identifier: String, _ sent: ReportRequestBody) -> AppleReply {
        guard let held = store.held[identifier], let report = JSONValue(held.body.bytes) else {
            return AppleReply(
                transport: .answered(status: 400),
                errors: [AppleError(code: 3, fieldName: "requestIdentifier", lineItemID: nil)]
            )
        }
        return AppleReply(
            transport: .answered(status: 200),
            isOurs: sent.isHeld(as: report),
            lineItemsHeld: sent.lineItemsHeld(in: report)
        )
    }
}
