import Testing
import TokenDomain

@Suite struct `What is owed next` {
    struct OwedRow: CustomTestStringConvertible {
        var last: ReportStatus?
        var event: DueEvent
        var next: ReportStatus?
        var testDescription: String { "\(last?.rawValue ?? "nothing") × \(event)" }
    }

    static let owed: [OwedRow] = [
        OwedRow(last: nil, event: .primaryDue, next: .noLineItem),
        OwedRow(last: nil, event: .duplicateDue, next: .duplicateToken),
        OwedRow(last: nil, event: .provenUnknown, next: .unrecognizedToken),
        OwedRow(last: nil, event: .monthDue, next: .noLineItem),
        OwedRow(last: .noLineItem, event: .primaryDue, next: nil),
        OwedRow(last: .noLineItem, event: .duplicateDue, next: nil),
        OwedRow(last: .noLineItem, event: .provenUnknown, next: nil),
        OwedRow(last: .noLineItem, event: .monthDue, next: .noLineItem),
        OwedRow(last: .lineItem, event: .primaryDue, next: nil),
        OwedRow(last: .lineItem, event: .duplicateDue, next: nil),
        OwedRow(last: .lineItem, event: .provenUnknown, next: nil),
        OwedRow(last: .lineItem, event: .monthDue, next: nil),
        OwedRow(last: .unrecognizedToken, event: .primaryDue, next: nil),
        OwedRow(last: .unrecognizedToken, event: .duplicateDue, next: nil),
        OwedRow(last: .unrecognizedToken, event: .provenUnknown, next: nil),
        OwedRow(last: .unrecognizedToken, event: .monthDue, next: nil),
        OwedRow(last: .duplicateToken, event: .primaryDue, next: nil),
        OwedRow(last: .duplicateToken, event: .duplicateDue, next: nil),
        OwedRow(last: .duplicateToken, event: .provenUnknown, next: nil),
        OwedRow(last: .duplicateToken, event: .monthDue, next: nil),
    ]

    @Test(arguments: owed)
    func `by itself`(row: OwedRow) {
        #expect(NextStatus.owed(lastAccepted: row.last, event: row.event) == row.next)
    }

    @Test func `has a row for every pair`() {
        let lasts = [nil] + ReportStatus.allCases.map(Optional.some)
        for last in lasts {
            for event in DueEvent.allCases {
                #expect(Self.owed.count { $0.last == last && $0.event == event } == 1)
            }
        }
    }

    @Test(arguments: [
        (
            ReportStatus?.none,
            [ReportStatus.lineItem, .noLineItem, .unrecognizedToken, .duplicateToken]
        ),
        (.noLineItem, [.lineItem, .noLineItem]),
        (.lineItem, [.lineItem]),
        (.unrecognizedToken, [.lineItem, .noLineItem]),
        (.duplicateToken, []),
    ])
    func `by hand`(last: ReportStatus?, allowed: [ReportStatus]) {
        let found = ReportStatus.allCases.filter {
            NextStatus.mayFollow(lastAccepted: last, requested: $0)
        }
        #expect(found == allowed)
    }
}
