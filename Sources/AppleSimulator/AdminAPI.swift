internal import Crypto

/// The door that Apple does not have: what is stored, what was asked, and how to meddle (S21).
struct AdminAPI {
    let world: AppleWorld
    let real: UnixMilliseconds

    /// The world's time.
    var now: UnixMilliseconds { world.clock.now(real: real) }

    /// A request that cannot be carried out; the sentence goes to the caller.
    struct Refusal: Error {
        var status = 400
        let sentence: String
    }

    static let usage = """
        GET  /reports        stored reports; ?environment= &offset= &limit= (1000) &format=ndjson
        GET  /line-items     the newest version of each accepted one, and how many there were;
                             ?offset= &limit= (1000) &format=ndjson
        GET  /requests       requests seen, refused ones too, and how often Apple named each error;
                             ?from=SEQUENCE &limit= (1000)
        GET  /tokens         issued tokens and their standing; ?offset= &limit= (1000)
        POST /tokens         {"register":[{"externalPurchaseId":…,"appAppleId":…,"bundleId":…,
                             "tokenCreationDate":…,"tokenExpirationDate"?,"tokenType"?,"customer"?}],
                             "notify":true?}: true to send their notifications too
        POST /tokens         {"mint":{"event":"install|update|request|purchase","appAppleId":…,
                             "bundleId":…,"customer":…,"environment"?,"tokenType"?,"refresh"?,
                             "count"?,"padded"?,"standardAlphabet"?,"blanks":"none|trailing|
                             pretty|ragged"?}}, or an array of such
        POST /keys           {"keyId":…,"issuerId":…,"publicKey":PEM,"bundleIds":[…]}
        POST /transactions   {"transactionId":…,"bundleId":…,"originalTransactionId"?,
                             "environment"?,"inAppOwnershipType"?,"appTransactionId"?,"forged"?}
        GET  /transactions   purchases and the account tokens set on them
        POST /notifications  {"subtype":"CREATED|ACTIVE_TOKEN_REMINDER|UNREPORTED",
                             "externalPurchaseId":… or "externalPurchaseIds":[…] or "token":{…},
                             "url"?,"deliver":false?,"times"?,"shuffled"?,"forged":"wrong-root|
                             missing-leaf-oid|missing-intermediate-oid|two-certificates|
                             alg-none|tampered-payload|wrong-bundle"?}
        GET  /notifications  made so far, with every attempt; ?offset= &limit= &payload=1
        PUT  /urls           {"production":URL,"sandbox":URL}: where the schedule sends to
        GET  /roots.pem      the root under which all of them are signed
        GET  /faults         faults in force and how often they struck
        POST /faults         {"faults":["429:every=50,retry-after=2s"],"clear":true}
        DELETE /faults       no more faults
        GET  /clock          {"now":…,"rate":…}
        PUT  /clock          {"now":…} or {"advance":"10d"}, and "rate"

        """

    func answer(method: String, path: String, query: String, body: [UInt8]) -> AppleAnswer {
        do throws(Refusal) {
            return try route(method: method, path: path, query: Query(query), body: body)
        } catch {
            return .json(
                error.status,
                .object([JSONMember("error", .string(error.sentence))])
            )
        }
    }

    private func route(
        method: String,
        path: String,
        query: Query,
        body: [UInt8]
    ) throws(Refusal) -> AppleAnswer {
        switch (method, path) {
        case ("GET", "/"): return .text(Self.usage)
        case ("GET", "/reports"): return try reports(query)
        case ("GET", "/line-items"): return try lineItems(query)
        case ("GET", "/requests"): return try requests(query)
        case ("GET", "/tokens"): return try tokens(query)
        case ("POST", "/tokens"):
            let order = try json(body)
            if let mintOrder = order["mint"] { return try mint(mintOrder) }
            return try registerTokens(order)
        case ("POST", "/transactions"): return try addTransaction(json(body))
        case ("GET", "/transactions"): return try transactions(query)
        case ("POST", "/notifications"): return try notify(json(body))
        case ("GET", "/notifications"): return try notifications(query)
        case ("PUT", "/urls"): return try setURLs(json(body))
        case ("GET", "/roots.pem"):
            return AppleAnswer(
                status: 200,
                headers: ["Content-Type": "application/x-pem-file"],
                body: world.rootPEM
            )
        case ("POST", "/keys"): return try addKey(json(body))
        case ("GET", "/faults"): return faults()
        case ("POST", "/faults"): return try addFaults(json(body))
        case ("DELETE", "/faults"):
            world.removeFaults()
            return faults()
        case ("GET", "/clock"): return clock()
        case ("PUT", "/clock"): return try setClock(json(body))
        default: throw Refusal(status: 404, sentence: "no such call; GET / lists them")
        }
    }

    func json(_ body: [UInt8]) throws(Refusal) -> JSONValue {
        do {
            return try JSONValue(reading: body)
        } catch {
            throw Refusal(sentence: "the body is no JSON, at byte \(error.byteIndex)")
        }
    }

    /// Refuses an order without members, or with one that no call would look at.
    private func requireMembers(
        of body: JSONValue,
        among names: [String]
    ) throws(Refusal) {
        guard case .object(let members) = body, !members.isEmpty else {
            throw Refusal(sentence: "an object is required, with \(names.joined(separator: ", "))")
        }
        for member in members where !names.contains(member.name) {
            let known = names.joined(separator: ", ")
            throw Refusal(sentence: "\(member.name) is unknown here; there are \(known)")
        }
    }

    // MARK: Faults, keys, clock

    private func faults() -> AppleAnswer {
        let armed = world.faults.armed.map { armed in
            JSONValue.object([
                JSONMember("fault", .string(armed.rule.text)),
                JSONMember("matched", .integer(armed.matchCount)),
                JSONMember("struck", .integer(armed.strikeCount)),
            ])
        }
        return .json(200, .object([JSONMember("faults", .array(armed))]))
    }

    private func addFaults(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        try requireMembers(of: body, among: ["faults", "clear"])
        guard body.mayHave("faults", \.elements), body.mayHave("clear", \.flag) else {
            throw Refusal(sentence: "faults is an array of strings, clear true or false")
        }
        var rules: [FaultRule] = []
        for element in body["faults"]?.elements ?? [] {
            guard let text = element.text else { throw Refusal(sentence: "a fault is no string") }
            do { rules.append(try FaultRule(text)) } catch {
                throw Refusal(sentence: error.description)
            }
        }
        if body["clear"]?.flag == true { world.removeFaults() }
        guard world.faults.armed.count + rules.count <= FaultPlan.countMax else {
            throw Refusal(sentence: "no more than \(FaultPlan.countMax) faults at a time")
        }
        for rule in rules { world.add(rule) }
        return faults()
    }

    private func addKey(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        guard let keyID = body["keyId"]?.text, let issuerID = body["issuerId"]?.text,
            let pem = body["publicKey"]?.text
        else { throw Refusal(sentence: "keyId, issuerId and publicKey (PEM) are required") }
        do throws(APIKeyFault) {
            try world.addKey(
                keyID: keyID,
                issuerID: issuerID,
                publicKeyPEM: Array(pem.utf8),
                bundleIDs: body["bundleIds"]?.elements?.compactMap(\.text) ?? []
            )
        } catch {
            throw Refusal(sentence: "publicKey is no P-256 public key in PEM")
        }
        return .json(200, .object([JSONMember("keyId", .string(keyID))]))
    }

    private func clock() -> AppleAnswer {
        .json(
            200,
            .object([
                JSONMember("now", .integer(world.clock.now(real: real))),
                JSONMember("rate", .number(String(world.clock.rate))),
            ])
        )
    }

    private func setClock(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        try requireMembers(of: body, among: ["now", "advance", "rate"])
        guard body.mayHave("now", \.integer) else {
            throw Refusal(sentence: "now is a whole number of milliseconds since 1970")
        }
        var now = body["now"]?.integer ?? world.clock.now(real: real)
        if let advance = body["advance"] {
            guard let step = advance.text.flatMap(durationMilliseconds) else {
                throw Refusal(sentence: "advance is no duration such as 300ms, 30s, 15m, 24h, 10d")
            }
            now = now.addingReportingOverflow(step).partialValue
        }
        guard WorldClock.settable.contains(now) else {
            throw Refusal(sentence: "now is from 1970 to the end of 9999, in milliseconds")
        }
        var rate = world.clock.rate
        if let member = body["rate"] {
            guard case .number(let literal) = member, let number = Double(literal),
                (0...10_000_000).contains(number)
            else {
                throw Refusal(sentence: "rate is between 0 and 10000000")
            }
            rate = number
        }
        world.clock.set(now: now, rate: rate, real: real)
        return clock()
    }
}

/// The parameters of a query; of a repeated name the first.
struct Query {
    private var values: [Substring: Substring] = [:]

    init(_ text: String) {
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if let name = parts.first, values[name] == nil {
                values[name] = parts.dropFirst().first ?? ""
            }
        }
    }

    subscript(_ name: String) -> String? {
        values[name[...]].map(String.init)
    }

    func count(_ name: String, default standard: Int, max: Int) throws(AdminAPI.Refusal) -> Int {
        guard let text = self[name] else { return standard }
        guard let value = Int(text), (0...max).contains(value) else {
            throw AdminAPI.Refusal(sentence: "\(name) is a number from 0 to \(max)")
        }
        return value
    }
}

extension AppleAnswer {
    static func text(_ text: String, type: String = "text/plain; charset=utf-8") -> AppleAnswer {
        AppleAnswer(status: 200, headers: ["Content-Type": type], body: Array(text.utf8))
    }
}
