import Testing
import TokenDomain

private func token(
    _ id: String,
    _ type: KnownTokenType? = .services,
    days: ClosedRange<Int64>? = 0...365,
    created: Int64 = 0,
    offset: Int64 = 0,
    refused: Bool = false,
    customer: Bool = true,
    later: Bool = false
) -> CustomerToken {
    let creation = saleTime + .days(days?.lowerBound ?? created)
    return CustomerToken(
        token: ExternalPurchaseToken(
            externalPurchaseID: TokenID(id),
            appAppleID: 1,
            bundleID: "b",
            tokenType: type.map { TokenType($0) },
            tokenCreationDate: creation,
            tokenExpirationDate: days.map { saleTime + .days($0.upperBound) }
        ),
        offset: offset,
        hasCustomer: customer,
        isRefused: refused,
        isLaterClaim: later
    )
}

private func sale(
    day: Int64 = 1,
    asked: String? = nil,
    _ kind: PurchaseAttribution.Sale.Kind = .buy,
    excluded: [String] = []
) -> PurchaseAttribution.Sale {
    PurchaseAttribution.Sale(
        date: saleTime + .days(day),
        lane: saleLane,
        asked: asked.map { TokenID($0) },
        kind: kind,
        excluded: excluded.map { TokenID($0) }
    )
}

private func carrier(_ id: String) -> PurchaseAttribution.Choice { .token(TokenID(id)) }

@Suite struct `The token that carries a sale` {
    /// An app that asks for a token at each launch: all are of one period.
    @Test func `costs as much per token among many as among few`() {
        let many = (0..<2_000).map { token("\($0)", offset: Int64($0), refused: $0 == 0) }
        func duration(_ count: Int) -> Duration {
            let tokens = Array(many.prefix(count))
            return (0..<5).map { _ in
                ContinuousClock().measure {
                    let choice = PurchaseAttribution.choose(
                        for: sale(),
                        among: tokens,
                        window: .days(7)
                    )
                    #expect(choice == carrier("1"))
                }
            }.min() ?? .zero
        }
        // Twenty times as many: where each is compared with each, four hundred times the cost.
        #expect(duration(2_000) < duration(100) * 100)
    }

    struct Case: Sendable, CustomStringConvertible {
        var description: String
        var sale: PurchaseAttribution.Sale
        var tokens: [CustomerToken]
        var choice: PurchaseAttribution.Choice
        var isWaitOver = false
    }

    static let cases: [Case] = [
        Case(description: "none", sale: sale(), tokens: [], choice: .none),
        Case(description: "active", sale: sale(), tokens: [token("a")], choice: carrier("a")),
        Case(
            description: "creation counts",
            sale: sale(day: 0),
            tokens: [token("a")],
            choice: carrier("a")
        ),
        Case(
            description: "expiry does not",
            sale: sale(day: 365),
            tokens: [token("a")],
            choice: .none
        ),
        Case(
            description: "the expiry's millisecond goes to the next",
            sale: sale(day: 365),
            tokens: [token("a"), token("b", days: 365...700)],
            choice: carrier("b")
        ),
        Case(
            description: "SERVICES before ACQUISITION before others",
            sale: sale(),
            tokens: [
                token("o", .inApp, offset: 0), token("q", .acquisition, offset: 1),
                token("s", .services, offset: 2),
            ],
            choice: carrier("s")
        ),
        Case(
            description: "primary of its period",
            sale: sale(),
            tokens: [token("b", offset: 7), token("a", offset: 9)],
            choice: carrier("b")
        ),
        Case(
            description: "a forged first one that Apple refused",
            sale: sale(),
            tokens: [token("forged", offset: 1, refused: true), token("real", offset: 9)],
            choice: carrier("real")
        ),
        Case(
            description: "newest without expiry",
            sale: sale(day: 5),
            tokens: [
                token("old", nil, days: nil, created: 0), token("new", nil, days: nil, created: 4),
            ],
            choice: carrier("new")
        ),
        Case(
            description: "without expiry, seven days old",
            sale: sale(day: 7),
            tokens: [token("a", nil, days: nil)],
            choice: carrier("a")
        ),
        Case(
            description: "without expiry, older",
            sale: sale(day: 8),
            tokens: [token("a", nil, days: nil)],
            choice: .none
        ),
        Case(
            description: "without expiry, younger than the sale",
            sale: sale(day: -1),
            tokens: [token("a", nil, days: nil)],
            choice: .none
        ),
        Case(
            description: "an expiry before none",
            sale: sale(),
            tokens: [token("a", nil, days: nil, created: 1), token("b")],
            choice: carrier("b")
        ),
        Case(
            description: "asked for",
            sale: sale(asked: "q"),
            tokens: [token("s"), token("q", .acquisition)],
            choice: carrier("q")
        ),
        Case(
            description: "asked for, a duplicate: its primary",
            sale: sale(asked: "b"),
            tokens: [token("a", offset: 1), token("b", offset: 2)],
            choice: carrier("a")
        ),
        Case(
            description: "asked for, without expiry and old",
            sale: sale(day: 90, asked: "a"),
            tokens: [token("a", nil, days: nil)],
            choice: carrier("a")
        ),
        Case(
            description: "asked for, unknown",
            sale: sale(asked: "x"),
            tokens: [token("a")],
            choice: .askedUnknown
        ),
        Case(
            description: "asked for, unknown for long",
            sale: sale(asked: "x"),
            tokens: [token("a")],
            choice: carrier("a"),
            isWaitOver: true
        ),
        Case(
            description: "asked for, refused: the next",
            sale: sale(asked: "x"),
            tokens: [token("x", .inApp, refused: true), token("a")],
            choice: carrier("a")
        ),
        Case(
            description: "asked for, out of its range: the next",
            sale: sale(day: 400, asked: "a"),
            tokens: [token("a"), token("b", days: 365...700)],
            choice: carrier("b")
        ),
        Case(
            description: "refused for its date: the next that fits",
            sale: sale(excluded: ["s"]),
            tokens: [token("s"), token("q", .acquisition)],
            choice: carrier("q")
        ),
        Case(
            description: "renewal: the token of its date",
            sale: sale(day: 400, .later(startedUnder: TokenID("a"))),
            tokens: [token("a"), token("b", days: 365...700)],
            choice: carrier("b")
        ),
        Case(
            description: "renewal after expiry: none",
            sale: sale(day: 400, .later(startedUnder: TokenID("a"))),
            tokens: [token("a")],
            choice: .none
        ),
        Case(
            description: "renewal under a start without expiry",
            sale: sale(day: 400, .later(startedUnder: TokenID("a"))),
            tokens: [token("a", nil, days: nil)],
            choice: carrier("a")
        ),
        Case(
            description: "refund under its buy's token while that is active",
            sale: sale(day: 20, .refund(boughtUnder: TokenID("q"))),
            tokens: [token("q", .acquisition), token("s")],
            choice: carrier("q")
        ),
        Case(
            description: "refund under its buy's token, whatever it asks for",
            sale: sale(day: 20, asked: "s", .refund(boughtUnder: TokenID("q"))),
            tokens: [token("q", .acquisition), token("s")],
            choice: carrier("q")
        ),
        Case(
            description: "refund that asks for an unknown token: at once under its buy's",
            sale: sale(day: 20, asked: "x", .refund(boughtUnder: TokenID("a"))),
            tokens: [token("a", nil, days: nil)],
            choice: carrier("a")
        ),
        Case(
            description: "refund after expiry: the token asked for",
            sale: sale(day: 400, asked: "b", .refund(boughtUnder: TokenID("a"))),
            tokens: [
                token("a"), token("b", .acquisition, days: 365...700), token("c", days: 366...700),
            ],
            choice: carrier("b")
        ),
        Case(
            description: "refund after expiry: the token of its date",
            sale: sale(day: 400, .refund(boughtUnder: TokenID("a"))),
            tokens: [token("a"), token("b", days: 365...700)],
            choice: carrier("b")
        ),
        Case(
            description: "refund after expiry and no other: its buy's",
            sale: sale(day: 400, .refund(boughtUnder: TokenID("a"))),
            tokens: [token("a")],
            choice: carrier("a")
        ),
        Case(
            description: "refund refused for its date, and no other",
            sale: sale(day: 400, .refund(boughtUnder: TokenID("a")), excluded: ["a"]),
            tokens: [token("a")],
            choice: .none
        ),
        Case(
            description: "a later copy of the only token",
            sale: sale(),
            tokens: [token("a", days: (-9)...(-8)), token("a", offset: 1, later: true)],
            choice: carrier("a")
        ),
        Case(
            description: "a later copy is in no period",
            sale: sale(),
            tokens: [
                token("a", days: (-9)...(-8)), token("a", offset: 1, later: true),
                token("b", offset: 2),
            ],
            choice: carrier("b")
        ),
        Case(
            description: "a later copy, refused for its date: the next",
            sale: sale(excluded: ["a"]),
            tokens: [
                token("a", days: (-9)...(-8)), token("a", offset: 1, later: true),
                token("b", .acquisition, offset: 2),
            ],
            choice: carrier("b")
        ),
        Case(
            description: "asked for, by a later copy",
            sale: sale(asked: "q"),
            tokens: [
                token("q", .acquisition, days: (-9)...(-8)),
                token("q", .acquisition, offset: 1, later: true), token("s", offset: 2),
            ],
            choice: carrier("q")
        ),
        Case(
            description: "asked for, a duplicate by its first claim: its primary",
            sale: sale(asked: "q"),
            tokens: [
                token("p"), token("q", offset: 1),
                token("q", .acquisition, offset: 2, later: true),
            ],
            choice: carrier("p")
        ),
        Case(
            description: "a later copy of a duplicate carries nothing",
            sale: sale(),
            tokens: [
                token("p", days: (-9)...(-8)), token("q", days: (-9)...(-8), offset: 1),
                token("q", offset: 2, later: true), token("u", .acquisition, offset: 3),
            ],
            choice: carrier("u")
        ),
        Case(
            description: "asked for, by a later copy of a duplicate: any other",
            sale: sale(asked: "q"),
            tokens: [
                token("p", days: (-9)...(-8)), token("q", days: (-9)...(-8), offset: 1),
                token("q", offset: 2, later: true), token("u", .acquisition, offset: 3),
            ],
            choice: carrier("u")
        ),
        Case(
            description: "refund under its buy's token, by a later copy",
            sale: sale(day: 20, .refund(boughtUnder: TokenID("q"))),
            tokens: [
                token("q", .acquisition, days: (-9)...(-8)),
                token("q", .acquisition, offset: 1, later: true), token("s", offset: 2),
            ],
            choice: carrier("q")
        ),
        Case(
            description: "renewal under a start without expiry, by a later copy",
            sale: sale(day: 400, .later(startedUnder: TokenID("a"))),
            tokens: [token("a"), token("a", nil, days: nil, offset: 1, later: true)],
            choice: carrier("a")
        ),
        Case(
            description: "tokens without customer have no period",
            sale: sale(),
            tokens: [
                token("a", offset: 2, customer: false), token("b", offset: 1, customer: false),
            ],
            choice: carrier("b")
        ),
    ]

    @Test(arguments: [nil, saleTime + .days(2)]) func `may be of the first moment there is`(
        expiration: Timestamp?
    ) {
        var oldest = token("old")
        oldest.token.tokenCreationDate = Timestamp(milliseconds: .min)
        oldest.token.tokenExpirationDate = expiration
        var other = oldest
        other.token.externalPurchaseID = TokenID("other")
        other.offset = 1
        let choice = PurchaseAttribution.choose(
            for: sale(),
            among: [other, oldest],
            window: Milliseconds(.max)
        )
        #expect(choice == carrier("old"))
    }

    @Test(arguments: cases)
    func `is the same in every order of arrival`(row: Case) {
        for order in permutations(row.tokens) {
            let choice = PurchaseAttribution.choose(
                for: row.sale,
                among: order,
                window: .days(7),
                isWaitOver: row.isWaitOver
            )
            #expect(choice == row.choice)
        }
    }

    @Test func `is one of the app and the environment`() {
        var foreign = token("a")
        foreign.token.appAppleID = 2
        let sandbox = token("SANDBOX_a")
        let choice = PurchaseAttribution.choose(
            for: sale(),
            among: [foreign, sandbox],
            window: .days(7)
        )
        #expect(choice == .none)
    }

    private func permutations(_ tokens: [CustomerToken]) -> [[CustomerToken]] {
        guard let first = tokens.first else {
            return [[]]
        }
        return permutations(Array(tokens.dropFirst())).flatMap { rest in
            (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
        }
    }
}
