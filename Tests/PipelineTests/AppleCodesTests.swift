import AppleSimulator
import Testing

/// Each of Apple's codes, provoked in the whole pipeline, is handled by its class.
///
/// Source: apple-api 2.7, the table of error objects; a code may stand in several rows.
@Suite struct `Each of Apple's codes` {
    static let rows: [AppleCodeRow] =
        [
            // A duplicate: what Apple has is compared, and settled where it is ours.
            AppleCodeRow(1, "requestIdentifier", by: .losingTheAnswer, .settled),
            AppleCodeRow(1, "lineItemId", by: .havingIt(asSent: true), .settled),
            AppleCodeRow(1, "lineItemId", by: .havingIt(asSent: false), .deadLetter("conflict")),
            AppleCodeRow(30, "erroneouslySubmitted", of: .retraction, .settled),
            // Unknown: a token makes way for the next one; a report is sent again; the rest is wrong.
            AppleCodeRow(3, "externalPurchaseId", by: .notKnowingTheToken, .nextToken),
            AppleCodeRow(3, "requestIdentifier", by: .losingTheRequest, .again),
            AppleCodeRow(3, "lineItemId", of: .restatement, .deadLetter("rejected")),
            AppleCodeRow(3, "referenceLineItemId", of: .refund, .deadLetter("rejected")),
            // What passes.
            AppleCodeRow(26, nil, isNamed: false, by: .saying(times: 3), .again),
            AppleCodeRow(6, "creationDate", of: .buyOfNow, by: .saying(times: 1), .again),
            AppleCodeRow(
                6,
                "creationDate",
                isNamed: false,
                of: .buyOfNow,
                by: .saying(times: 1),
                .again
            ),
            AppleCodeRow(6, "creationDate", .deadLetter("rejected")),
            AppleCodeRow(
                22,
                "erroneouslySubmitted",
                of: .retraction,
                by: .saying(times: 1),
                .again
            ),
            AppleCodeRow(22, "erroneouslySubmitted", of: .retraction, .deadLetter("rejected")),
            AppleCodeRow(25, "erroneouslySubmitted", of: .refund, by: .saying(times: 1), .again),
            AppleCodeRow(25, "erroneouslySubmitted", of: .refund, .deadLetter("rejected")),
            // Another token of the customer.
            AppleCodeRow(36, "creationDate", by: .sayingOfOneToken, .nextToken),
            AppleCodeRow(36, "creationDate", .deadLetter("token_out_of_range")),
            // The token's own report: `report` has the dead letter.
            AppleCodeRow(8, "status", by: .refusingTheToken("NO_LINE_ITEM"), .tokenDeadLetter),
            AppleCodeRow(10, "status", by: .refusingTheToken("NO_LINE_ITEM"), .tokenDeadLetter),
            AppleCodeRow(37, "status", by: .refusingTheToken("DUPLICATE_TOKEN"), .tokenDeadLetter),
            AppleCodeRow(9, "status", isNamed: false, .deadLetter("rejected")),
        ]
        + refused(
            .buy,
            isAlwaysNamed: false,
            [
                (4, "taxCountry"), (5, "exchangeRate"), (7, "taxCountry"),
                (11, "amountTaxInclusive"),
                (15, "taxAmount"), (16, "quantity"), (18, "reportingCurrency"), (19, "lineItemId"),
                (27, "creationDate"),
            ]
        )
        + refused(.start, isAlwaysNamed: false, [(34, "subscriptionDaysOfPaidService")])
        + refused(
            .renewal,
            isAlwaysNamed: false,
            [
                (17, "subscriptionEndDate"), (35, "amountTaxInclusive"),
            ]
        )
        + refused(.renewal, isAlwaysNamed: true, [(14, "referenceLineItemId"), (29, "lineItemId")])
        + refused(
            .refund,
            isAlwaysNamed: false,
            [
                (13, "referenceLineItemId"), (24, "netAmountTaxExclusive"),
            ]
        )
        + refused(
            .refund,
            isAlwaysNamed: true,
            [
                (2, "reportingCurrency"), (12, "netAmountTaxExclusive"),
                (21, "referenceLineItemId"),
                (23, "taxCountry"), (28, "lineItemId"), (31, "creationDate"),
                (32, "pricingCurrency"),
                (33, "exchangeRate"), (40, "creationDate"),
            ]
        )
        + refused(.restatement, isAlwaysNamed: true, [(38, "creationDate"), (39, "creationDate")])
        + refused(.retraction, isAlwaysNamed: false, [(20, "erroneouslySubmitted")])

    /// Data to be repaired by a person: a dead letter, whether Apple names the item or not.
    private static func refused(
        _ subject: AppleCodeRow.Subject,
        isAlwaysNamed: Bool,
        _ codes: [(Int, String)]
    ) -> [AppleCodeRow] {
        codes.flatMap { code, field in
            (isAlwaysNamed ? [true] : [true, false]).map {
                AppleCodeRow(code, field, isNamed: $0, of: subject, .deadLetter("rejected"))
            }
        }
    }

    @Test func `is in this table`() {
        #expect(AppleAnswer.codes.count == 40)
        let codes = Set(Self.rows.map(\.code))
        #expect(Set(AppleAnswer.codes).subtracting(codes).sorted() == [])
        #expect(codes.subtracting(AppleAnswer.codes).sorted() == [])
    }

    @Test(arguments: rows)
    func `is handled by its class`(row: AppleCodeRow) throws {
        let trial = try AppleCodeTrial(row)
        try trial.play()
        try trial.check()
    }
}

/// One code as Apple says it, and what follows.
struct AppleCodeRow: Sendable, CustomTestStringConvertible {
    /// The sale that Apple refuses.
    enum Subject {
        case buy, buyOfNow, start, renewal, refund, restatement, retraction
    }

    /// How Apple comes to say it.
    enum Cause {
        /// A script says it of the sale, so many times; nil is for ever.
        case saying(times: Int?)
        /// A script says it of the sale under one token.
        case sayingOfOneToken
        /// A script says it of the own report of a token that nobody bought with.
        case refusingTheToken(String)
        /// The simulator's own rules say it.
        case losingTheAnswer, losingTheRequest, notKnowingTheToken
        /// A report by hand has brought the line item before.
        case havingIt(asSent: Bool)
    }

    /// What follows.
    enum End {
        /// It goes again by itself and is accepted.
        case again
        /// It is found to be so already, and reported as verified.
        case settled
        /// It is accepted under another token of the customer.
        case nextToken
        /// Of `purchases`, with the code behind `purchases.`.
        case deadLetter(String)
        /// Of `report`.
        case tokenDeadLetter
    }

    var code: Int
    var field: String?
    var isNamed: Bool
    var subject: Subject
    var cause: Cause
    var end: End

    init(
        _ code: Int,
        _ field: String?,
        isNamed: Bool = true,
        of subject: Subject = .buy,
        by cause: Cause = .saying(times: nil),
        _ end: End
    ) {
        self.code = code
        self.field = field
        self.isNamed = isNamed
        self.subject = subject
        self.cause = cause
        self.end = end
    }

    var testDescription: String {
        "\(code) \(field ?? "") \(isNamed ? "named" : "unnamed") of \(subject), \(cause): \(end)"
    }
}

extension AppleCodeRow.Cause {
    var isNotKnowingTheToken: Bool {
        if case .notKnowingTheToken = self { true } else { false }
    }

    var isLosingTheAnswer: Bool {
        if case .losingTheAnswer = self { true } else { false }
    }

    /// Apple's own rules refuse it, without a script.
    var isOfTheSimulator: Bool {
        switch self {
        case .losingTheAnswer, .losingTheRequest, .notKnowingTheToken, .havingIt: true
        case .saying, .sayingOfOneToken, .refusingTheToken: false
        }
    }

    var isReportedByGet: Bool { isLosingTheAnswer }
}

extension AppleCodeRow.End {
    var isTokenDeadLetter: Bool {
        if case .tokenDeadLetter = self { true } else { false }
    }
}
