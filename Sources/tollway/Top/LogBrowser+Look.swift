internal import Kafka
internal import StageRuntime
internal import Telemetry

/// How `tollway top` reads a topic on: in looks, between which the rest of the page is shown.
extension LogBrowser {
    /// What one look takes in; the rest comes with the next one.
    private static let lookCountMax = 500_000
    private static let readCountMax = 10_000
    private static let readWaitMilliseconds = 50

    /// Takes in what there is, until its end or, once `countMin` records were read, until a time of the
    /// monotonic clock.
    ///
    /// One partition's end ends a read, and says nothing of the others.
    ///
    /// - Returns: whether the end was reached that there was at the start.
    func look(
        until: Int64,
        countMin: Int = 0,
        _ body: (RecordBatch) -> Void
    ) throws(LogFault) -> Bool {
        var batch = RecordBatch()
        var count = 0
        var isAtEnd = false
        repeat {
            batch.removeAll()
            isAtEnd = try read(
                into: &batch,
                recordCountMax: Self.readCountMax,
                waitMilliseconds: Self.readWaitMilliseconds
            )
            body(batch)
            count += batch.records.count
        } while count < Self.lookCountMax && (!batch.records.isEmpty || !isAtEnd)
            && (count < countMin || WallClock.monotonicMilliseconds() < until)
        return isAtEnd
    }
}
