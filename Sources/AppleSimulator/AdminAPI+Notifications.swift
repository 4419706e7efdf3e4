/// Notifications on demand, the schedule's addresses, and tokens minted by an event.
extension AdminAPI {
    /// More in one call would hold the loop for seconds.
    private static let tokenCountMax = 10_000

    // MARK: Minting

    /// One order or an array of them; each with `count` people where it is given.
    func mint(_ order: JSONValue) throws(Refusal) -> AppleAnswer {
        var minted: [JSONValue] = []
        for element in order.elements ?? [order] {
            let text = try tokenText(element)
            let orders = try mintOrders(element)
            guard world.tokens.count + 2 * orders.count <= IssuedTokens.countMax else {
                throw Refusal(status: 507, sentence: "\(IssuedTokens.countMax) tokens are enough")
            }
            for mintOrder in orders {
                for token in world.mint(mintOrder, now: now) {
                    let encoded = JSONMember("token", .string(text.encode(token)))
                    minted.append(.object(token.members + [encoded]))
                }
            }
        }
        return .json(200, .object([JSONMember("tokens", .array(minted))]))
    }

    private func mintOrders(_ value: JSONValue) throws(Refusal) -> [MintOrder] {
        guard let event = value["event"]?.text.flatMap(MintEvent.init),
            let app = value["appAppleId"]?.integer, let bundleID = value["bundleId"]?.text,
            let customer = value["customer"]?.text
        else {
            let events = MintEvent.allCases.map(\.rawValue).joined(separator: ", ")
            throw Refusal(
                sentence: "mint needs event (\(events)), appAppleId, bundleId and customer"
            )
        }
        let environment = try environment(value)
        let count = value["count"]?.integer ?? 1
        guard (1...Int64(Self.tokenCountMax)).contains(count) else {
            throw Refusal(sentence: "count is a number from 1 to \(Self.tokenCountMax)")
        }
        return (1...count).map { number in
            MintOrder(
                event: event,
                environment: environment,
                appAppleID: app,
                bundleID: bundleID,
                customer: count == 1 ? customer : "\(customer)-\(number)",
                tokenType: value["tokenType"]?.text,
                refreshes: value["refresh"]?.flag ?? false
            )
        }
    }

    private func tokenText(_ value: JSONValue) throws(Refusal) -> TokenText {
        var text = TokenText()
        if let word = value["blanks"] {
            guard let blanks = word.text.flatMap(TokenText.Blanks.init) else {
                throw Refusal(sentence: "blanks is none, trailing, pretty or ragged")
            }
            text.blanks = blanks
        }
        text.isPadded = value["padded"]?.flag ?? false
        text.hasStandardAlphabet = value["standardAlphabet"]?.flag ?? false
        return text
    }

    func environment(_ value: JSONValue) throws(Refusal) -> StoreEnvironment {
        guard let word = value["environment"] else { return .production }
        guard let environment = word.text.flatMap(StoreEnvironment.init) else {
            throw Refusal(sentence: "environment is production or sandbox")
        }
        return environment
    }

    // MARK: Notifications

    /// Signs one notification a token; delivers each `times` times, in the order asked for.
    func notify(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        guard let subtype = body["subtype"]?.text.flatMap(NotificationSubtype.init) else {
            let words = NotificationSubtype.allCases.map(\.rawValue).joined(separator: ", ")
            throw Refusal(sentence: "subtype is one of \(words)")
        }
        let forgery = try forgery(body)
        let times = body["times"]?.integer ?? 1
        guard (1...100).contains(times) else {
            throw Refusal(sentence: "times is a number from 1 to 100")
        }
        let tokens = try notifiedTokens(body)
        guard world.notifications.hasRoom(for: tokens.count) else {
            throw Refusal(
                status: 507,
                sentence: "no more than \(NotificationBook.countMax) notifications are kept"
            )
        }
        var indexes = tokens.map { token in
            world.notify(token, subtype: subtype, now: now, isSent: false, forgery: forgery)
        }
        let made = indexes.map { self.notification(world.notifications.stored[$0], isWhole: true) }
        if body["shuffled"]?.flag == true { indexes.shuffle(using: &world.generator) }
        if body["deliver"]?.flag ?? true {
            try deliver(indexes, times: Int(times), url: body["url"]?.text)
        }
        return .json(200, .object([JSONMember("notifications", .array(made))]))
    }

    private func deliver(_ indexes: [Int], times: Int, url: String?) throws(Refusal) {
        for index in indexes {
            let environment = world.notifications.stored[index].environment
            guard let url = url ?? world.notifications.urlByEnvironment[environment] else {
                throw Refusal(
                    sentence: "no url, neither here nor for \(environment.rawValue) by PUT /urls"
                )
            }
            world.send(index, to: url, times: times, now: now)
        }
    }

    private func notifiedTokens(_ body: JSONValue) throws(Refusal) -> [IssuedToken] {
        if let given = body["token"] {
            guard let token = IssuedToken(reading: given) else {
                throw Refusal(sentence: "token lacks a field or has one of another type")
            }
            return [token]
        }
        let ids =
            body["externalPurchaseIds"]?.elements ?? body["externalPurchaseId"].map { [$0] } ?? []
        guard !ids.isEmpty, ids.count <= Self.tokenCountMax else {
            throw Refusal(
                sentence: "externalPurchaseId, externalPurchaseIds (1 to \(Self.tokenCountMax)) "
                    + "or token is required"
            )
        }
        var tokens: [IssuedToken] = []
        for id in ids {
            guard let text = id.text, let token = world.token(text) else {
                throw Refusal(sentence: "\(id.text ?? "?") was never issued")
            }
            tokens.append(token)
        }
        return tokens
    }

    func notifications(_ query: Query) throws(Refusal) -> AppleAnswer {
        let all = world.notifications.stored
        let offset = try query.count("offset", default: 0, max: .max)
        let limit = try query.count("limit", default: 1000, max: 10_000)
        let page = all.dropFirst(offset).prefix(limit).map {
            notification($0, isWhole: query["payload"] == "1")
        }
        return .json(
            200,
            .object([
                JSONMember("count", .integer(all.count)),
                JSONMember("delivered", .integer(all.count { $0.isDelivered })),
                JSONMember("dropped", .integer(world.notifications.droppedCount)),
                JSONMember("notifications", .array(page)),
            ])
        )
    }

    private func notification(_ notification: StoredNotification, isWhole: Bool) -> JSONValue {
        var members = [
            JSONMember("notificationUUID", .string(notification.uuid)),
            JSONMember("notificationType", .string(notification.type)),
        ]
        members += JSONMember.present("subtype", notification.subtype.map { .string($0) })
        members.append(JSONMember("environment", .string(notification.environment.rawValue)))
        members += JSONMember.present(
            "externalPurchaseId",
            notification.externalPurchaseID.map { .string($0) }
        )
        members.append(JSONMember("sendAttempts", notification.attemptsJSON))
        if isWhole {
            members.append(JSONMember("signedPayload", .string(notification.signedPayload)))
        }
        return .object(members)
    }

    /// Where the schedule of each environment sends to; null or absence stops it.
    func setURLs(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        for environment in StoreEnvironment.allCases {
            let url = body[environment.rawValue]
            guard url == nil || url?.text?.hasPrefix("http") == true else {
                throw Refusal(sentence: "\(environment.rawValue) is no http or https URL")
            }
            world.setNotificationURL(url?.text, for: environment)
        }
        return .json(200, body)
    }
}
