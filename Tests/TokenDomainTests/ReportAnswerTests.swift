import Testing
import TokenDomain

@Suite struct `The meaning of Apple's answer` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)
    static let identifier = "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f"

    struct Row: CustomTestStringConvertible {
        var reply: AppleReply
        var request: ReportRequest
        var meaning: ReportAnswer
        var testDescription: String { "\(request) \(reply)" }

        init(
            _ request: ReportRequest,
            _ status: Int,
            errors: [(Int64, String?)]? = nil,
            acknowledged: String? = nil,
            isOurs: Bool? = nil,
            retryAfter: Timestamp? = nil,
            isPage: Bool = false,
            _ meaning: ReportAnswer
        ) {
            self.request = request
            self.meaning = meaning
            reply = AppleReply(
                transport: .answered(status: status),
                isPage: isPage,
                errors: errors.map { errors in
                    errors.map { AppleError(code: $0.0, fieldName: $0.1, lineItemID: nil) }
                },
                acknowledged: acknowledged,
                isOurs: isOurs,
                retryAfter: retryAfter
            )
        }

        init(_ request: ReportRequest, _ transport: AppleReply.Transport, _ meaning: ReportAnswer) {
            self.request = request
            self.meaning = meaning
            reply = AppleReply(transport: transport)
        }
    }

    static let rows: [Row] = [
        // 2.8, sending
        Row(.send, 200, acknowledged: identifier, .accepted),
        Row(.send, 200, acknowledged: identifier.uppercased(), .accepted),
        Row(.send, 200, acknowledged: "another", .verify(isTaken: false, isRefused: false)),
        Row(.send, 200, .verify(isTaken: false, isRefused: false)),
        Row(.send, 204, .verify(isTaken: false, isRefused: false)),
        Row(.send, 202, acknowledged: identifier, .verify(isTaken: false, isRefused: false)),
        Row(.send, 409, .verify(isTaken: false, isRefused: false)),
        Row(.send, 301, .lane(.misdirected, until: nil)),
        Row(.send, 307, .lane(.misdirected, until: nil)),
        Row(.send, 403, .lane(.misdirected, until: nil)),
        Row(.send, 404, .lane(.misdirected, until: nil)),
        Row(.send, 401, .lane(.unauthorized, until: nil)),
        Row(.send, 429, .lane(.rateLimited, until: nil)),
        Row(.send, 429, retryAfter: now, .lane(.rateLimited, until: now)),
        Row(.send, 400, .rejected(.refused)),
        Row(.send, 400, errors: [], .rejected(.refused)),
        Row(.send, 413, .rejected(.refused)),
        Row(.send, 415, .rejected(.refused)),
        // What no page of Apple's has: a proxy's or a firewall's
        Row(.send, 400, isPage: true, .lane(.misdirected, until: nil)),
        Row(.send, 406, .lane(.misdirected, until: nil)),
        Row(.send, 411, .lane(.misdirected, until: nil)),
        Row(.send, 418, .lane(.misdirected, until: nil)),
        Row(.send, 422, .lane(.misdirected, until: nil)),
        Row(.send, 415, isPage: true, .lane(.misdirected, until: nil)),
        // With a reason it is about this report
        Row(.send, 422, errors: [(7, "taxCountry")], .rejected(.refused)),
        Row(.send, 431, .lane(.misdirected, until: nil)),
        Row(.send, 499, .lane(.misdirected, until: nil)),
        Row(.send, 408, .again(isDoubtful: true, notBefore: nil)),
        Row(.send, 500, .again(isDoubtful: true, notBefore: nil)),
        Row(.send, 500, errors: [(5_000_000, nil)], .again(isDoubtful: true, notBefore: nil)),
        Row(.send, 500, retryAfter: now, .again(isDoubtful: true, notBefore: nil)),
        Row(.send, 503, retryAfter: now, .again(isDoubtful: true, notBefore: now)),
        Row(.send, .doubtful, .again(isDoubtful: true, notBefore: nil)),
        Row(.send, .notSent, .again(isDoubtful: false, notBefore: nil)),
        Row(.send, .noKey, .lane(.noKey, until: nil)),
        // Several reasons in one 400
        Row(
            .send,
            400,
            errors: [(1, "requestIdentifier")],
            .verify(isTaken: true, isRefused: false)
        ),
        Row(.send, 400, errors: [(1, nil)], .verify(isTaken: true, isRefused: false)),
        Row(.send, 400, errors: [(1, "lineItemId")], .rejected(.refused)),
        Row(
            .send,
            400,
            errors: [(1, "requestIdentifier"), (3, "externalPurchaseId")],
            .verify(isTaken: true, isRefused: true)
        ),
        // What a report that was accepted earns when it is sent again.
        Row(
            .send,
            400,
            errors: [(1, "requestIdentifier"), (1, "lineItemId"), (30, "erroneouslySubmitted")],
            .verify(isTaken: true, isRefused: false)
        ),
        Row(
            .send,
            400,
            errors: [(1, "requestIdentifier"), (1, "lineItemId"), (7, "taxCountry")],
            .verify(isTaken: true, isRefused: true)
        ),
        Row(
            .send,
            400,
            errors: [(1, "requestIdentifier"), (26, nil)],
            .verify(isTaken: true, isRefused: false)
        ),
        Row(.send, 400, errors: [(26, nil)], .serialise),
        Row(.send, 400, errors: [(26, nil), (8, "status")], .rejected(.refused)),
        Row(.send, 400, errors: [(6, "creationDate"), (26, nil)], .futureDate),
        Row(.send, 400, errors: [(9_999, nil)], .rejected(.refused)),
        // Retrieving
        Row(.retrieve, 200, isOurs: true, .verified),
        Row(.retrieve, 200, isOurs: false, .rejected(.conflict)),
        Row(.retrieve, 200, .again(isDoubtful: true, notBefore: nil)),
        Row(.retrieve, 400, errors: [(3, "requestIdentifier")], .notHeld),
        Row(.retrieve, 400, .nothingSaid),
        Row(.retrieve, 400, errors: [(2, "requestIdentifier")], .nothingSaid),
        Row(.retrieve, 400, isPage: true, .lane(.misdirected, until: nil)),
        Row(.retrieve, 406, .lane(.misdirected, until: nil)),
        // Looking for line items in an earlier report: what Apple has must not be told twice
        Row(.search, 400, errors: [(3, "requestIdentifier")], .notHeld),
        Row(.search, 400, .again(isDoubtful: true, notBefore: nil)),
        Row(.retrieve, 404, .lane(.misdirected, until: nil)),
        Row(.retrieve, 401, .lane(.unauthorized, until: nil)),
        Row(.retrieve, 429, .lane(.rateLimited, until: nil)),
        Row(.retrieve, 500, .again(isDoubtful: true, notBefore: nil)),
        Row(.retrieve, 503, retryAfter: now, .again(isDoubtful: true, notBefore: now)),
        Row(.retrieve, 413, .again(isDoubtful: true, notBefore: nil)),
        Row(.retrieve, .doubtful, .again(isDoubtful: false, notBefore: nil)),
        Row(.retrieve, .notSent, .again(isDoubtful: false, notBefore: nil)),
    ]

    @Test(arguments: rows)
    func `follows the table`(row: Row) {
        let meaning = ReportAnswer(
            row.reply,
            to: row.request,
            identifier: Self.identifier,
            newestDate: Self.now,
            now: Self.now
        )
        #expect(meaning == row.meaning)
    }

    @Test func `names every code of a refusal by its number`() {
        #expect(AppleErrorCode.allCases.map(\.rawValue) == Array(1...40))
        let some: [(AppleErrorCode, Int64)] = [
            (.fieldNotAllowed, 5), (.lineItemsNotAllowedForStatus, 10),
            (.negativeValueNotAllowed, 15), (.erroneouslySubmittedNotRestatement, 20),
            (.validLineItemReferencesErroneousLineItem, 25), (.repeatErroneousSubmission, 30),
            (.invalidTaxInclusiveAmountForSubscriptionPayment, 35),
            (.lineItemCreationDateOutOfRange, 36), (.restatementNotAllowedCreationDate, 39),
        ]
        #expect(some.map(\.0.rawValue) == some.map(\.1))
        func sentence(_ code: Int64, _ field: String?) -> String {
            AppleError(code: code, fieldName: field, lineItemID: "secret").sentence
        }
        #expect(sentence(3, "externalPurchaseId") == "code 3 (notFound on externalPurchaseId)")
        #expect(sentence(26, nil) == "code 26 (simultaneousSubmission)")
        #expect(sentence(41, "status") == "code 41 (status)")
    }

    /// Every row of apple-api 2.7, by what it asks of us.
    @Test(arguments: 1...40)
    func `knows every code of a refusal`(code: Int64) {
        let kind = AppleErrorKind(
            AppleError(
                code: code,
                fieldName: code == 1 ? "requestIdentifier" : nil,
                lineItemID: nil
            ),
            newestDate: nil,
            now: Self.now
        )
        switch code {
        case 1: #expect(kind == .taken)
        case 26: #expect(kind == .simultaneous)
        default: #expect(kind == .final)
        }
    }

    /// Apple names the field of an error usually.
    @Test func `takes a line item that Apple has for no taken identifier, without its field too`() {
        for field in ["lineItemId", nil] {
            let error = AppleError(code: 1, fieldName: field, lineItemID: "a")
            let kind = AppleErrorKind(error, newestDate: nil, now: Self.now)
            #expect(kind == .final && error.isRepeatedLineItem)
        }
        let unnamed = AppleError(code: 1, fieldName: nil, lineItemID: nil)
        #expect(AppleErrorKind(unnamed, newestDate: nil, now: Self.now) == .taken)
        #expect(!unnamed.isRepeatedLineItem)
    }

    @Test(arguments: [
        (Milliseconds.minutes(5), AppleErrorKind.futureDate),
        (Milliseconds(Milliseconds.minutes(5).count + 1), .final),
        (Milliseconds.minutes(-5), .futureDate),
        (Milliseconds(Milliseconds.minutes(-5).count - 1), .final),
        (Milliseconds.days(-30), .final),
    ])
    func `takes a date within minutes of now for a clock that is off`(
        ahead: Milliseconds,
        kind: AppleErrorKind
    ) {
        let error = AppleError(code: 6, fieldName: "creationDate", lineItemID: nil)
        #expect(AppleErrorKind(error, newestDate: Self.now + ahead, now: Self.now) == kind)
        #expect(AppleErrorKind(error, newestDate: nil, now: Self.now) == .final)
    }

    @Test func `never gives a report up for a key, a rate, a server or a network`() {
        let harmless: [Int] = [401, 429] + Array(500...599) + Array(300...399) + [403, 404, 408]
        for status in harmless {
            for request in ReportRequest.allCases {
                let meaning = ReportAnswer(
                    AppleReply(transport: .answered(status: status)),
                    to: request,
                    identifier: Self.identifier,
                    newestDate: nil,
                    now: Self.now
                )
                if case .rejected = meaning {
                    Issue.record("\(request) \(status) is given up")
                }
            }
        }
    }
}

@Suite struct `The meaning of an answer to Set App Account Token` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)

    @Test(arguments: [
        (200, Int64?.none, AccountTokenAnswer.accepted),
        (204, nil, .accepted),
        (400, 4_000_006, .rejected),
        (400, 4_000_048, .rejected),
        (400, 4_000_183, .rejected),
        (400, 4_000_185, .rejected),
        (400, 4_000_187, .rejected),
        (400, nil, .rejected),
        (401, nil, .lane(.unauthorized, until: nil)),
        (403, nil, .lane(.misdirected, until: nil)),
        (404, 4_040_005, .rejected),
        (404, 4_040_006, .again(notBefore: nil)),
        (404, nil, .rejected),
        (429, 4_290_000, .lane(.rateLimited, until: now)),
        (500, 5_000_000, .again(notBefore: nil)),
        (500, 5_000_001, .again(notBefore: nil)),
        (500, nil, .again(notBefore: nil)), (200, 5_000_001, .again(notBefore: nil)),
        (503, nil, .again(notBefore: now)),
        (302, nil, .lane(.misdirected, until: nil)),
    ])
    func `follows the table`(status: Int, code: Int64?, meaning: AccountTokenAnswer) {
        let reply = AppleReply(
            transport: .answered(status: status),
            errors: code.map { [AppleError(code: $0, fieldName: nil, lineItemID: nil)] },
            retryAfter: Self.now
        )
        #expect(AccountTokenAnswer(reply) == meaning)
    }

    /// A proxy in Apple's place sends one.
    @Test(arguments: [200, 204, 299])
    func `is no yes where it is a page`(status: Int) {
        let reply = AppleReply(transport: .answered(status: status), isPage: true)
        #expect(AccountTokenAnswer(reply) == .again(notBefore: nil))
    }
}
