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

    /// A report that Apple has before it: its answer is made, and leaves later.
    private struct Judged {
        var answeredAt: Timestamp
        var client: Int
        var tag: UInt64
        /// Nil where another report of the token came before it: that one holds the token.
        var token: String?
        var reply: TokenDomain.AppleReply
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
    /// Reports that reached Apple while another of the same worker and token was not answered: of one
    /// token a worker has one report under way.
    private(set) var overlaps: [String] = []
    /// Reports that met one which a dead or former owner of the token had sent.
    private(set) var foreignOverlapCount = 0
    private var onTheWay: [Message] = []
    private var judged: [Judged] = []
    /// Of the time that Apple takes for a report.
    private var paces: TokenDomain.SeededGenerator
    /// Requests whose answers their client no longer waits for.
    private var abandoned: [Int: Set<UInt64>] = [:]
    /// Every request that left a worker.
    private(set) var sent: [Request] = []
    /// Answers that their client has not collected yet; a dead client never does.
    private var mailboxes: [Int: [Answer]] = [:]
    private let bundleIDs: [Int64: String]

    init(seed: UInt64, bundleIDs: [Int64: String]) {
        generator = TokenDomain.SeededGenerator(seed: seed)
        paces = TokenDomain.SeededGenerator(seed: seed ^ 0x9ace)
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

    /// When the next request arrives or is answered; nil where none is on its way.
    var nextArrival: Timestamp? {
        [onTheWay.map(\.dueAt).min(), judged.map(\.answeredAt).min()].compactMap { $0 }.min()
    }

    /// Delivers what is due, of every sender.
    ///
    /// - Returns: the answers on their way back to one client.
    func deliver(now: Timestamp, to client: SimulatedAppleClient) -> [Answer] {
        while let next = nextArrival, next <= now {
            if let index = judged.firstIndex(where: { $0.answeredAt == next }) {
                answer(judged.remove(at: index))
            } else if let index = onTheWay.firstIndex(where: { $0.dueAt == next }) {
                receive(onTheWay.remove(at: index), now: now)
            }
        }
        return mailboxes.removeValue(forKey: client.number) ?? []
    }

    /// A client waits for an answer no longer: what it sent may be sent by another one now.
    func abandon(tag: UInt64, by client: SimulatedAppleClient) {
        abandoned[client.number, default: []].insert(tag)
    }

    func isAbandoned(tag: UInt64, by client: SimulatedAppleClient) -> Bool {
        abandoned[client.number]?.contains(tag) ?? false
    }

    private func receive(_ message: Message, now: Timestamp) {
        guard case .sendReport(let body) = message.request.action else {
            mailboxes[message.client, default: []].append((message.tag, arrive(message, now: now)))
            return
        }
        let token = Self.content(of: body).token
        let holder = judged.first { $0.token == token }
        let reply = arrive(message, now: now, isBeside: holder != nil)
        let isProcessed = reply.transport != .notSent
        if let holder, isProcessed {
            let gone = abandoned[message.client] ?? []
            if holder.client == message.client,
                !gone.contains(holder.tag), !gone.contains(message.tag)
            {
                overlaps.append("two reports of \(token) at a time, by one worker")
            } else {
                foreignOverlapCount += 1
            }
        }
        let isHolding = holder == nil && isProcessed
        if isHolding {
            world.hold(token)
        }
        let pace = Milliseconds(Int64.random(in: 1...600, using: &paces))
        judged.append(
            Judged(
                answeredAt: message.dueAt + pace,
                client: message.client,
                tag: message.tag,
                token: isHolding ? token : nil,
                reply: reply
            )
        )
    }

    private func answer(_ report: Judged) {
        if let token = report.token {
            world.release(token)
        }
        mailboxes[report.client, default: []].append((report.tag, report.reply))
    }

    private func note(_ answer: AppleAnswer, to content: Sent, isBeside: Bool) {
        let errors = AppleBody(answer.body).errors ?? []
        // Of the overlaps each is judged for itself.
        guard !(isBeside && errors.map(\.code) == [26]) else {
            return
        }
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

    /// The reply to what reaches Apple, `isBeside` another report of the token that it has before it.
    private func arrive(
        _ message: Message,
        now: Timestamp,
        isBeside: Bool = false
    ) -> TokenDomain.AppleReply {
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
        var asked: (identifier: String, sent: ReportRequestBody)?
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
            note(answer, to: content, isBeside: isBeside)
            if losesAnswer(content) {
                return TokenDomain.AppleReply(transport: .doubtful)
            }
        case .retrieveReport(let identifier, let body):
            asked = (identifier, body)
            answer = world.get(identifier, environment: environment, bundleID: bundleID)
        case .setAccountToken:
            preconditionFailure("the simulation asks for no account tokens")
        }
        guard !message.isAnswerLost else {
            return TokenDomain.AppleReply(transport: .doubtful)
        }
        let body = AppleBody(answer.body)
        let held = asked.flatMap { body.report(under: $0.identifier) }
        return TokenDomain.AppleReply(
            transport: .answered(status: answer.status),
            errors: body.errors,
            acknowledged: body.requestIdentifier,
            isOurs: asked.flatMap { asked in held.map { asked.sent.isHeld(as: $0) } },
            lineItemsHeld: asked.flatMap { asked in held.map { asked.sent.lineItemsHeld(in: $0) } }
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
        apple.deliver(now: now, to: self).filter { !apple.isAbandoned(tag: $0.tag, by: self) }
    }

    func abandon(tag: UInt64) {
        apple.abandon(tag: tag, by: self)
    }

    func reloadKey(appAppleID: Int64) {}

    func startWithFirstKey(appAppleID: Int64) {}
}
