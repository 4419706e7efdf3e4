import AppStoreAPI
import AppleSimulator
import Simulation
import TokenDomain

/// Apple's simulator behind a network without sockets: requests arrive and answers come back when
/// the clock says so, or never.
///
/// A request that is on its way when its worker dies still arrives: that is the lost answer that
/// `report` must live with.
final class SimulatedApple {
    struct Message {
        var dueAt: Timestamp
        var client: Int
        var tag: UInt64
        var request: Request
        var isAnswerLost: Bool
        var isRequestLost: Bool
    }

    /// What Apple is sent, as far as a test's refusals hang on it.
    struct Sent {
        var token: String
        var status: String
        var lineItemIDs: [String]
    }

    /// A 400 of Apple's.
    struct Refusal: CustomStringConvertible {
        var token: String
        var lineItemIDs: [String]
        var errors: [AppleError]

        var description: String {
            let codes = errors.map { "\($0.code) \($0.fieldName ?? "") \($0.lineItemID ?? "")" }
            return "\(token) \(lineItemIDs): \(codes.joined(separator: ", "))"
        }
    }

    typealias Request = AppStoreAPI.AppleRequest
    typealias Answer = (tag: UInt64, reply: TokenDomain.AppleReply)

    let world = AppleWorld()
    var generator: TokenDomain.SeededGenerator
    /// One request in so many is lost on the way, one answer in so many on the way back, one is
    /// answered 429 or 500; 0 is never.
    var faultOneIn = 0
    /// An answer that a test gives instead of Apple, which then does nothing; nil asks Apple.
    var answer: (Sent) -> AppleAnswer? = { _ in nil }
    /// Whether Apple acts, and its answer does not come back.
    var losesAnswer: (Sent) -> Bool = { _ in false }
    /// Every report that Apple refused, but for what a lost answer explains.
    private(set) var refusals: [Refusal] = []
    private var onTheWay: [Message] = []
    /// Every request that left a worker.
    private(set) var sent: [Request] = []
    /// Answers that their client has not collected yet; a dead client never does.
    private var mailboxes: [Int: [Answer]] = [:]
    private let bundleIDs: [Int64: String]

    init(seed: UInt64, bundleIDs: [Int64: String]) {
        generator = TokenDomain.SeededGenerator(seed: seed)
        self.bundleIDs = bundleIDs
    }

    private func strikes() -> Bool {
        faultOneIn > 0 && Int.random(in: 0..<faultOneIn, using: &generator) == 0
    }

    func send(_ request: Request, from client: SimulatedAppleClient, now: Timestamp) {
        sent.append(request)
        onTheWay.append(
            Message(
                dueAt: now + Milliseconds(Int64.random(in: 1...800, using: &generator)),
                client: client.number,
                tag: request.tag,
                request: request,
                isAnswerLost: strikes(),
                isRequestLost: strikes()
            )
        )
    }

    /// When the next request arrives; nil where none is on its way.
    var nextArrival: Timestamp? { onTheWay.map(\.dueAt).min() }

    /// Delivers what is due, of every sender.
    ///
    /// - Returns: the answers on their way back to one client.
    func deliver(now: Timestamp, to client: SimulatedAppleClient) -> [Answer] {
        let due = onTheWay.filter { $0.dueAt <= now }
        onTheWay.removeAll { $0.dueAt <= now }
        for message in due {
            mailboxes[message.client, default: []].append((message.tag, arrive(message, now: now)))
        }
        return mailboxes.removeValue(forKey: client.number) ?? []
    }

    private func note(_ answer: AppleAnswer, to content: Sent) {
        let errors = AppleBody(answer.body).errors ?? []
        let isRepeat = errors.contains { $0.code == 1 && $0.fieldName == "requestIdentifier" }
        if answer.status == 400, !isRepeat {
            refusals.append(
                Refusal(
                    token: content.token,
                    lineItemIDs: content.lineItemIDs,
                    errors: errors
                )
            )
        }
    }

    private func arrive(_ message: Message, now: Timestamp) -> TokenDomain.AppleReply {
        guard !message.isRequestLost else {
            return TokenDomain.AppleReply(transport: .notSent)
        }
        if strikes() {
            let isLimit = Bool.random(using: &generator)
            return TokenDomain.AppleReply(
                transport: .answered(status: isLimit ? 429 : 500),
                retryAfter: isLimit ? now + .seconds(1) : nil
            )
        }
        let lane = message.request.lane
        let environment: StoreEnvironment =
            lane.environment == .sandbox ? .sandbox : .production
        let bundleID = bundleIDs[lane.appAppleID] ?? ""
        let answer: AppleAnswer
        var sent: ReportRequestBody?
        switch message.request.action {
        case .sendReport(let body):
            let content = Self.content(of: body)
            answer =
                self.answer(content)
                ?? world.put(
                    body.bytes,
                    environment: environment,
                    bundleID: bundleID,
                    now: now.milliseconds
                )
            note(answer, to: content)
            if losesAnswer(content) {
                return TokenDomain.AppleReply(transport: .doubtful)
            }
        case .retrieveReport(let identifier, let body):
            sent = body
            answer = world.get(identifier, environment: environment, bundleID: bundleID)
        case .setAccountToken:
            preconditionFailure("the simulation asks for no account tokens")
        }
        guard !message.isAnswerLost else {
            return TokenDomain.AppleReply(transport: .doubtful)
        }
        let body = AppleBody(answer.body)
        return TokenDomain.AppleReply(
            transport: .answered(status: answer.status),
            errors: body.errors,
            acknowledged: body.requestIdentifier,
            isOurs: sent.flatMap { sent in body.report.map { sent.isHeld(as: $0) } },
            lineItemsHeld: sent.flatMap { sent in body.report.map { sent.lineItemsHeld(in: $0) } }
        )
    }
}

extension SimulatedApple {
    private static func content(of body: ReportRequestBody) -> Sent {
        let report = AppStoreAPI.JSONValue(body.bytes)
        return Sent(
            token: report?["externalPurchaseId"]?.text ?? "",
            status: report?["status"]?.text ?? "",
            lineItemIDs: (report?["lineItems"]?.elements ?? []).compactMap {
                $0["lineItemId"]?.text
            }
        )
    }
}

/// One instance of `report`'s view of Apple.
final class SimulatedAppleClient: AppleClient {
    /// Its own among all that there ever were.
    let number: Int
    private let apple: SimulatedApple
    private var abandoned: Set<UInt64> = []

    init(apple: SimulatedApple, number: Int) {
        self.apple = apple
        self.number = number
    }

    var wakeDescriptor: Int32 { -1 }
    var nextAnswer: Timestamp? { apple.nextArrival }

    func submit(_ request: AppStoreAPI.AppleRequest, now: Timestamp) {
        apple.send(request, from: self, now: now)
    }

    func collect(now: Timestamp) -> [(tag: UInt64, reply: TokenDomain.AppleReply)] {
        apple.deliver(now: now, to: self).filter { !abandoned.contains($0.tag) }
    }

    func abandon(tag: UInt64) {
        abandoned.insert(tag)
    }

    func reloadKey(appAppleID: Int64) {}

    func startWithFirstKey(appAppleID: Int64) {}
}
