import Testing
import TokenDomain

@testable import StageRuntime

@Suite struct `A transaction that may become larger` {
    @Test func `waits while full batches come, and no longer than its time`() {
        var filling = Filling()
        let start = Timestamp(milliseconds: 1_000)
        func after(_ milliseconds: Int64) -> Timestamp {
            Timestamp(milliseconds: start.milliseconds + milliseconds)
        }
        #expect(!filling.goesOn(now: start))
        filling.took(Filling.batchRecordCountMin, isFirst: true, now: start)
        #expect(filling.goesOn(now: after(Filling.milliseconds - 1)))
        #expect(!filling.goesOn(now: after(Filling.milliseconds)))
        // The time is that of the first record.
        filling.took(Filling.batchRecordCountMin, isFirst: false, now: after(20))
        #expect(!filling.goesOn(now: after(Filling.milliseconds)))
        filling.took(Filling.batchRecordCountMin - 1, isFirst: false, now: after(20))
        #expect(!filling.goesOn(now: after(20)))
    }

    @Test func `waits for no more than it should have, though there is room`() {
        var filling = Filling()
        let start = Timestamp(milliseconds: 1_000)
        filling.took(Filling.recordCountMax - 1, isFirst: true, now: start)
        #expect(filling.goesOn(now: start))
        filling.took(Filling.batchRecordCountMin, isFirst: false, now: start)
        #expect(!filling.goesOn(now: start))
        filling.took(Filling.recordCountMax, isFirst: true, now: start)
        #expect(!filling.goesOn(now: start))
        filling.took(Filling.batchRecordCountMin, isFirst: true, now: start)
        #expect(filling.goesOn(now: start))
    }
}
