/// Purchases for Set App Account Token.
extension AdminAPI {
    /// Registers a purchase and returns what the app would hold of it.
    func addTransaction(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        guard let id = body["transactionId"]?.text, let bundleID = body["bundleId"]?.text else {
            throw Refusal(sentence: "transactionId and bundleId are required")
        }
        guard world.accountTokens.entries.count < AccountTokens.countMax else {
            throw Refusal(status: 507, sentence: "\(AccountTokens.countMax) purchases are enough")
        }
        let transaction = StoreTransaction(
            transactionID: id,
            originalTransactionID: body["originalTransactionId"]?.text ?? id,
            environment: try environment(body),
            bundleID: bundleID,
            appTransactionID: body["appTransactionId"]?.text,
            isFamilyShared: body["inAppOwnershipType"]?.text == "FAMILY_SHARED",
            productID: body["productId"]?.text ?? "demo.product",
            productType: body["type"]?.text ?? "Auto-Renewable Subscription"
        )
        guard world.register(transaction) else {
            throw Refusal(status: 409, sentence: "\(id) is known already")
        }
        let signed = world.signedTransaction(
            transaction,
            now: now,
            forgery: try forgery(body)
        )
        return .json(200, .object([JSONMember("signedTransaction", .string(signed))]))
    }

    func transactions(_ query: Query) throws(Refusal) -> AppleAnswer {
        let offset = try query.count("offset", default: 0, max: .max)
        let limit = try query.count("limit", default: 1000, max: 100_000)
        let entries = world.accountTokens.entries
        let page = entries.dropFirst(offset).prefix(limit).map { entry in
            let transaction = entry.transaction
            var members = [
                JSONMember("transactionId", .string(transaction.transactionID)),
                JSONMember("originalTransactionId", .string(transaction.originalTransactionID)),
                JSONMember("environment", .string(transaction.environment.rawValue)),
                JSONMember("bundleId", .string(transaction.bundleID)),
            ]
            members += JSONMember.present(
                "appAccountToken",
                entry.appAccountToken.map { .string($0) }
            )
            members.append(JSONMember("setCount", .integer(entry.setCount)))
            return JSONValue.object(members)
        }
        return .json(
            200,
            .object([
                JSONMember("count", .integer(entries.count)),
                JSONMember("transactions", .array(page)),
            ])
        )
    }

    func forgery(_ body: JSONValue) throws(Refusal) -> NotificationForgery? {
        guard let word = body["forged"] else { return nil }
        guard let forgery = word.text.flatMap(NotificationForgery.init) else {
            let words = NotificationForgery.allCases.map(\.rawValue).joined(separator: ", ")
            throw Refusal(sentence: "forged is one of \(words)")
        }
        return forgery
    }
}
