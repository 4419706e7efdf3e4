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

    /// Hours after the last that came in, of what others read; the gap from and to.
    @Test(
        arguments: [
            ([], 0, 400), ([-5, 0, 400, 500], 0, 400), ([10], 10, 400), ([390], 0, 390),
            ([100, 200, 300], nil, nil), ([300, 100, 200], nil, nil), ([157, 314], nil, nil),
            ([157, 243], nil, nil), ([157, 242], 242, 400), ([20, 300], 20, 300),
        ] as [([Int64], Int64?, Int64?)]
    )
    func `is what the others leave of it`(others: [Int64], from: Int64?, to: Int64?) {
        func time(_ hours: Int64) -> Timestamp { start + .hours(hours) }
        let own = GapWatch.Gap(from: start, to: time(400))
        let left = own.left(by: others.map(time))
        #expect(left?.from == from.map(time) && left?.to == to.map(time))
        // Nothing that was read before is in Kafka any more.
        let removed = GapWatch.Gap(from: nil, to: time(400)).left(by: others.map(time))
        #expect(removed == GapWatch.Gap(from: nil, to: time(min(400, others.min() ?? 400))))
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
