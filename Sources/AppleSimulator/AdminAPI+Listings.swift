/// What the simulator knows, in pages.
extension AdminAPI {
    private static let pageSize = 1000
    private static let pageSizeMax = 100_000

    /// Every accepted report, in the order of acceptance within an environment.
    func reports(_ query: Query) throws(Refusal) -> AppleAnswer {
        var environments = StoreEnvironment.allCases
        if let word = query["environment"] {
            guard let environment = StoreEnvironment(rawValue: word) else {
                throw Refusal(sentence: "environment is production or sandbox")
            }
            environments = [environment]
        }
        let offset = try query.count("offset", default: 0, max: .max)
        let limit = try query.count("limit", default: Self.pageSize, max: Self.pageSizeMax)
        var skipCount = offset
        var page: [JSONValue] = []
        var totalCount = 0
        for environment in environments {
            let store = world.reports(environment)
            totalCount += store.entries.count
            let rest = store.entries.dropFirst(skipCount).prefix(limit - page.count)
            skipCount = max(0, skipCount - store.entries.count)
            page += rest.map { self.report($0, environment) }
        }
        if query["format"] == "ndjson" { return .lines(page) }
        return .json(
            200,
            .object([
                JSONMember("count", .integer(totalCount)),
                JSONMember("next", next(offset, page.count, totalCount)),
                JSONMember("counts", .array(counts(environments))),
                JSONMember("reports", .array(page)),
            ])
        )
    }

    private func report(_ entry: ReportStore.Entry, _ environment: StoreEnvironment) -> JSONValue {
        let token = world.tokens.tokens[Int(entry.tokenIndex)]
        return .object([
            JSONMember("requestIdentifier", .string(entry.requestIdentifier.text)),
            JSONMember("externalPurchaseId", .string(token.externalPurchaseID)),
            JSONMember("environment", .string(environment.rawValue)),
            JSONMember("appAppleId", .integer(token.appAppleID)),
            JSONMember("bundleId", .string(token.bundleID)),
            JSONMember("status", .string(entry.status.rawValue)),
            JSONMember("lineItemCount", .integer(entry.lineItemCount)),
            JSONMember("acceptedAt", .integer(entry.acceptedAt)),
        ])
    }

    /// The newest version of every accepted line item, by environment, app and identifier.
    func lineItems(_ query: Query) throws(Refusal) -> AppleAnswer {
        let offset = try query.count("offset", default: 0, max: .max)
        let limit = try query.count("limit", default: Self.pageSize, max: Self.pageSizeMax)
        let all = world.lineItemBooks.flatMap { environment, bundleID, book in
            book.newest.map { (environment, bundleID, book, $0) }
        }
        let page = all.dropFirst(offset).prefix(limit).map { environment, bundleID, book, item in
            JSONValue.object([
                JSONMember("environment", .string(environment.rawValue)),
                JSONMember("bundleId", .string(bundleID)),
                JSONMember(
                    "versions",
                    .integer(Int64(book.versionCounts[item.lineItemID ?? ""] ?? 0))
                ),
                JSONMember("item", item.json),
            ])
        }
        if query["format"] == "ndjson" { return .lines(Array(page)) }
        return .json(
            200,
            .object([
                JSONMember("count", .integer(all.count)),
                JSONMember("next", next(offset, page.count, all.count)),
                JSONMember("lineItems", .array(Array(page))),
            ])
        )
    }

    /// How many reports of each status, over all pages.
    private func counts(_ environments: [StoreEnvironment]) -> [JSONValue] {
        environments.flatMap { environment in
            var countByStatus: [ReportStatus: Int] = [:]
            for entry in world.reports(environment).entries {
                countByStatus[entry.status, default: 0] += 1
            }
            return ReportStatus.allCases.compactMap { status in
                countByStatus[status].map { count in
                    JSONValue.object([
                        JSONMember("environment", .string(environment.rawValue)),
                        JSONMember("status", .string(status.rawValue)),
                        JSONMember("count", .integer(count)),
                    ])
                }
            }
        }
    }

    /// The newest requests, and how many of each kind there were in all.
    func requests(_ query: Query) throws(Refusal) -> AppleAnswer {
        let from = try query.count("from", default: 0, max: .max)
        let limit = try query.count("limit", default: Self.pageSize, max: Self.pageSizeMax)
        let records = world.requests.records(from: from, limit: limit)
        if query["format"] == "ndjson" { return .lines(records.map(\.json)) }
        let counts = world.requests.countByKind.sorted { $0.key < $1.key }
            .map { JSONMember($0.key, .integer($0.value)) }
        let errors = world.requests.countByError.sorted { $0.key < $1.key }
            .map { JSONMember($0.key, .integer($0.value)) }
        return .json(
            200,
            .object([
                JSONMember("count", .integer(world.requests.totalCount)),
                JSONMember("next", .integer((records.last?.sequence ?? from - 1) + 1)),
                JSONMember("counts", .object(counts)),
                JSONMember("errors", .object(errors)),
                JSONMember("requests", .array(records.map(\.json))),
            ])
        )
    }

    func tokens(_ query: Query) throws(Refusal) -> AppleAnswer {
        let offset = try query.count("offset", default: 0, max: .max)
        let limit = try query.count("limit", default: Self.pageSize, max: Self.pageSizeMax)
        let all = world.tokens
        let range = min(offset, all.count)..<min(all.count, min(offset, all.count) + limit)
        let page = range.map { index in
            var members = all.tokens[index].members
            members += JSONMember.present(
                "lastStatus",
                all.standings[index].lastStatus.map { .string($0.rawValue) }
            )
            members.append(JSONMember("reportCount", .integer(all.standings[index].reportCount)))
            return JSONValue.object(members)
        }
        if query["format"] == "ndjson" { return .lines(page) }
        return .json(
            200,
            .object([
                JSONMember("count", .integer(all.count)),
                JSONMember("next", next(offset, page.count, all.count)),
                JSONMember("tokens", .array(page)),
            ])
        )
    }

    /// Where the next page begins; null after the last.
    private func next(_ offset: Int, _ pageCount: Int, _ totalCount: Int) -> JSONValue {
        offset + pageCount < totalCount ? .integer(offset + pageCount) : .null
    }

    /// Makes tokens known that somebody else has made up, each by its own fields.
    func registerTokens(_ body: JSONValue) throws(Refusal) -> AppleAnswer {
        guard let elements = body["register"]?.elements,
            elements.count + world.tokens.count <= IssuedTokens.countMax
        else {
            throw Refusal(
                sentence: "register (an array of tokens, \(IssuedTokens.countMax) in all) or mint "
                    + "is required"
            )
        }
        var tokens: [IssuedToken] = []
        for (index, element) in elements.enumerated() {
            guard let token = IssuedToken(reading: element) else {
                throw Refusal(sentence: "token \(index) lacks a field or has one of another type")
            }
            guard WorldClock.settable.contains(token.tokenCreationDate) else {
                throw Refusal(
                    sentence: "token \(index) has a tokenCreationDate outside 1970 to 9999"
                )
            }
            tokens.append(token)
        }
        guard body.mayHave("notify", \.flag) else {
            throw Refusal(sentence: "notify is true or false")
        }
        let notifies = body["notify"]?.flag ?? false
        let taken = tokens.filter { token in
            !(notifies ? world.issue(token, now: now) : world.register(token))
        }.map(\.externalPurchaseID)
        return .json(
            200,
            .object([
                JSONMember("registered", .integer(tokens.count - taken.count)),
                JSONMember("taken", .strings(taken)),
            ])
        )
    }
}

extension IssuedToken {
    init?(reading value: JSONValue) {
        guard let id = value["externalPurchaseId"]?.text, let app = value["appAppleId"]?.integer,
            let bundleID = value["bundleId"]?.text,
            let created = value["tokenCreationDate"]?.integer,
            value.mayHave("tokenType", \.text), value.mayHave("customer", \.text),
            value.mayHave("tokenExpirationDate", \.integer)
        else { return nil }
        self.init(
            externalPurchaseID: id,
            appAppleID: app,
            bundleID: bundleID,
            tokenType: value["tokenType"]?.text,
            tokenCreationDate: created,
            tokenExpirationDate: value["tokenExpirationDate"]?.integer,
            customer: value["customer"]?.text
        )
    }

    /// The token's fields in the order of Apple's samples, and whose it is.
    var members: [JSONMember] {
        claims + JSONMember.present("customer", customer.map { .string($0) })
    }

    /// What a token says of itself.
    var claims: [JSONMember] {
        var members = [
            JSONMember("appAppleId", .integer(appAppleID)),
            JSONMember("bundleId", .string(bundleID)),
            JSONMember("tokenCreationDate", .integer(tokenCreationDate)),
            JSONMember("externalPurchaseId", .string(externalPurchaseID)),
        ]
        members += JSONMember.present("tokenType", tokenType.map { .string($0) })
        members += JSONMember.present(
            "tokenExpirationDate",
            tokenExpirationDate.map { .integer($0) }
        )
        return members
    }
}

extension AppleAnswer {
    static func lines(_ values: [JSONValue]) -> AppleAnswer {
        var body: [UInt8] = []
        for value in values {
            value.write(to: &body)
            body.append(UInt8(ascii: "\n"))
        }
        return AppleAnswer(
            status: 200,
            headers: ["Content-Type": "application/x-ndjson"],
            body: body
        )
    }
}
