import Testing
import TokenDomain

@testable import notifications

@Suite struct `A gap in Apple's notifications` {
    private let start = Timestamp(milliseconds: 1_800_000_000_000)

    @Test(arguments: [
        (Milliseconds.hours(157), false), (.hours(157).plus(1), true), (.hours(1), false),
        (.hours(-200), false),
    ])
    func `is longer than Apple tries`(span: Milliseconds, isGap: Bool) {
        for before in [GapWatch.Before.unknown, .last(start)] {
            var watch = GapWatch(before: before)
            if before == .unknown {
                #expect(watch.heard(at: start) == nil, "nothing is known of the time before")
            }
            let gap = watch.heard(at: start + span)
            #expect(gap == (isGap ? GapWatch.Gap(from: start, to: start + span) : nil))
        }
    }

    @Test func `is said once, and not of a partition that is read later`() {
        var watch = GapWatch(before: .last(start))
        #expect(watch.heard(at: start + .days(10)) != nil)
        #expect(watch.heard(at: start + .hours(1)) == nil)
        #expect(watch.heard(at: start + .days(10)) == nil)
    }

    /// Where the partitions begin, and what the group has committed: Kafka forgets that in seven days.
    @Test(
        arguments: [
            ([0, 0], [nil, nil], .unknown), ([0, 0], [0, nil], .unknown),
            ([5, 0], [nil, nil], .removed), ([5, 0], [5, nil], .removed),
            ([5, 0], [7, nil], nil), ([0, 0], [3, nil], nil),
        ] as [([Int64], [Int64?], GapWatch.Before?)]
    )
    func `may lie before what is left of what was read`(
        starts: [Int64],
        committed: [Int64?],
        before: GapWatch.Before?
    ) {
        #expect(LastNotice.before(starts: starts, committed: committed) == before)
    }

    /// Hours after the last that came in: of the gap's end, of what others read and the log still
    /// has, and the gap that is left.
    @Test(
        arguments: [
            (400, [], 0, 400), (400, [-5, 0, 400, 500], 0, 400), (400, [390], 0, 390),
            (400, [300], nil, nil), (400, [243, 300], nil, nil), (400, [390, 233], nil, nil),
            // What came in earlier is removed: it may be there or not.
            (400, [100, 200, 300], nil, nil), (400, [10], 0, 400), (400, [20, 300], nil, nil),
            (400, [242], 242, 400), (400, [243], nil, nil), (400, [231, 390], 0, 390),
            (312, [192, 288], nil, nil), (312, [145], 145, 312), (312, [310], 0, 310),
            (299, [], 0, 299), (300, [150], nil, nil), (300, [], 0, 300),
            (160, [], 0, 160), (160, [0], 0, 160), (160, [2], 2, 160), (160, [3], nil, nil),
        ] as [(Int64, [Int64], Int64?, Int64?)]
    )
    func `is what the others leave of it`(end: Int64, others: [Int64], from: Int64?, to: Int64?) {
        func time(_ hours: Int64) -> Timestamp { start + .hours(hours) }
        let own = GapWatch.Gap(from: start, to: time(end))
        let left = own.left(by: others.map(time))
        #expect(left?.from == from.map(time) && left?.to == to.map(time))
    }

    @Test func `is looked for where Kafka keeps what came in`() {
        func gap(_ hours: Int64) -> GapWatch.Gap {
            GapWatch.Gap(from: start, to: start + .hours(hours))
        }
        #expect(Topic.notificationsReceived.retention == .sevenDays)
        #expect(gap(168).lookFrom == start)
        #expect(gap(169).lookFrom == start + .hours(1))
        #expect(GapWatch.Gap(from: nil, to: start).lookFrom == nil)
    }

    @Test func `is certain where Kafka keeps nothing that was read`() {
        var watch = GapWatch(before: .removed)
        #expect(watch.heard(at: start) == GapWatch.Gap(from: nil, to: start))
        #expect(watch.heard(at: start) == nil)
    }
}

extension Milliseconds {
    fileprivate func plus(_ more: Int64) -> Milliseconds { Milliseconds(count + more) }
}
