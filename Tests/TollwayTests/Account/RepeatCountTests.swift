import Crypto
import Testing
import TokenDomain
import TokenWire

@testable import dedupe
@testable import tollway

/// Goal: a repeat whose first is gone is no token that dedupe lost.
///
/// Times are hours after the token was taken.
@Suite struct `A count of repeats` {
    private static let start = Timestamp(milliseconds: 1_768_003_200_000)
    private static let window = AccountWindow(from: start, to: start + .days(9), shortened: nil)
    private static let id = TokenID("t-1")
    private static let customer = CustomerID("c1.a")

    /// The token's records as dedupe writes them.
    private enum State {
        case taken
        case takenAsDuplicate
        /// Apple has refused all that were before it.
        case takenAfterRefused
        /// Apple has refused it since.
        case refused
        case refusedBeforeAnother
        /// As earlier versions wrote it: what it said is gone.
        case refusedAsDuplicate
        case refusedAndKept
        /// Apple has refused it since, and knows it.
        case knownAfterAll
        /// Apple has refused it before it came in.
        case refusedUnheard

        var record: DedupeRecord {
            var material: [UInt8] = []
            DedupeMaterial.appendIdentity(
                externalPurchaseID: id.text.utf8.span,
                customer: customer.text.utf8.span,
                to: &material
            )
            let other = Array(#"","token":{"#.utf8)
            let first = PeriodHead(count: 2, primary: .init(index: 0, id: other))
            let (index, head): (UInt32, PeriodHead?) =
                switch self {
                case .taken: (0, nil)
                case .takenAsDuplicate, .refusedAsDuplicate, .refusedAndKept, .knownAfterAll:
                    (1, first)
                case .takenAfterRefused:
                    (12, PeriodHead(count: 13, primary: .init(index: 12, id: Array(id.text.utf8))))
                case .refused: (0, PeriodHead(count: 1, primary: nil))
                case .refusedUnheard: (0, nil)
                case .refusedBeforeAnother:
                    (0, PeriodHead(count: 2, primary: .init(index: 1, id: other)))
                }
            let isKept = [.takenAsDuplicate, .refusedAndKept, .knownAfterAll].contains(self)
            return DedupeRecord(
                identity: DedupeKey(Hash.sha256(material).span),
                place: self == .refusedUnheard
                    ? nil : PeriodPlace(period: DedupeKey(high: 1, low: 1), index: index),
                externalPurchaseID: Array(id.text.utf8),
                keysExpire: start + .days(400),
                head: head,
                token: isKept ? Array(#"{"receivedAt":1"#.utf8) : nil,
                tokenStanding: self == .refusedAndKept
                    ? .refused : self == .knownAfterAll ? .known : .taken,
                isUnheard: self == .refusedUnheard
            )
        }
    }

    private static func decoded(at hours: Int64) -> TokenDecoded {
        TokenDecoded(
            token: ExternalPurchaseToken(
                externalPurchaseID: id,
                appAppleID: 7,
                bundleID: "b",
                tokenType: .services,
                tokenCreationDate: start,
                tokenExpirationDate: start + .days(30)
            ),
            customer: customer,
            receivedAt: start + .hours(hours),
            text: "x"
        )
    }

    private static let distinct = TokenDistinct(
        externalPurchaseID: id,
        appAppleID: 7,
        bundleID: "b",
        tokenType: .services,
        tokenCreationDate: start,
        tokenExpirationDate: start + .days(30),
        customer: customer,
        receivedAt: start,
        role: .primary
    )

    private static let cases:
        [(state: State, stateAt: Int64, at: Int64, isRepeat: Bool, late: Int)] = [
            (.taken, 0, 5, true, 0), (.takenAsDuplicate, 0, 5, true, 0),
            // What came out of dedupe late, or never, as far as anybody can know.
            (.taken, 24, 5, false, 0), (.takenAsDuplicate, 24, 5, false, 0),
            (.takenAfterRefused, 0, 5, true, 0), (.takenAfterRefused, 24, 5, false, 0),
            (.refused, 24, 5, false, 1), (.refusedBeforeAnother, 24, 5, false, 1),
            (.refusedAsDuplicate, 24, 5, false, 1), (.refusedAndKept, 24, 5, false, 1),
            (.knownAfterAll, 24, 5, false, 1),
            // Sent again after the refusal.
            (.refused, 24, 30, true, 0),
            (.refusedUnheard, -30, 0, false, 0),
            // Outside of the window.
            (.refused, 24, 300, true, 0), (.refused, 400, 300, false, 0),
        ]

    @Test(arguments: cases)
    private func `knows one whose first is gone, also after a refusal`(
        state: State,
        stateAt: Int64,
        at hours: Int64,
        isRepeat: Bool,
        late: Int
    ) {
        for isClassified in [false, true] {
            var count = RepeatCount(window: Self.window)
            count.takeState(
                key: state.record.changelogKey.span,
                value: state.record.changelogValue().span,
                recordTime: (Self.start + .hours(stateAt)).milliseconds
            )
            let time = (Self.start + .hours(hours)).milliseconds
            let first = count.takeDecoded(Self.decoded(at: hours), recordTime: time)
            let second = count.takeDecoded(Self.decoded(at: hours), recordTime: time)
            #expect(first == isRepeat && second)
            if isClassified {
                count.takeDistinct(Self.distinct)
            }
            count.beginPartitions()
            #expect(count.lateRepeats == (late == 0 || isClassified ? [:] : [7: late]))
        }
    }
}
