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

    @Test func `is certain where Kafka keeps nothing that was read`() {
        var watch = GapWatch(before: .removed)
        #expect(watch.heard(at: start) == GapWatch.Gap(from: nil, to: start))
        #expect(watch.heard(at: start) == nil)
    }
}

extension Milliseconds {
    fileprivate func plus(_ more: Int64) -> Milliseconds { Milliseconds(count + more) }
}
