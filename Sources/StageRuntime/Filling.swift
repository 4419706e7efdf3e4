internal import TokenDomain

/// Whether a transaction waits for more records before it begins, because more are there to be read.
///
/// A transaction costs 8 ms whatever is in it. One that begins with what was judged during a short one
/// before it is short as well: dedupe's had 5,800 records where 10,000 have room.
struct Filling {
    /// A poll that brings fewer has read what there was.
    static let batchRecordCountMin = 1_000
    /// From the first record of a transaction on.
    static let milliseconds: Int64 = 50

    private var batchRecordCount = 0
    private var end = Timestamp(milliseconds: 0)

    /// A poll brought so many records, `isFirst` where none was judged for the next transaction yet.
    mutating func took(_ count: Int, isFirst: Bool, now: Timestamp) {
        batchRecordCount = count
        if isFirst {
            end = Timestamp(milliseconds: now.milliseconds + Self.milliseconds)
        }
    }

    func goesOn(now: Timestamp) -> Bool {
        batchRecordCount >= Self.batchRecordCountMin && now < end
    }
}
