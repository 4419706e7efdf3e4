internal import TokenDomain

/// Whether a transaction waits for more records before it begins, because more are there to be read.
///
/// A transaction costs 8 ms whatever is in it. One that begins with what was judged during a short one
/// before it is short as well: dedupe's had 5,800 records where 10,000 had room.
struct Filling {
    /// With so many it waits no longer; more may have been judged while another one was under way.
    static let recordCountMax = 12_000
    /// A poll that brings fewer has read what there was.
    static let batchRecordCountMin = 1_000
    /// From the first record of a transaction on.
    static let milliseconds: Int64 = 65

    private var recordCount = 0
    private var batchRecordCount = 0
    private var end = Timestamp(milliseconds: 0)

    /// A poll brought so many records, `isFirst` where none was judged for the next transaction yet.
    mutating func took(_ count: Int, isFirst: Bool, now: Timestamp) {
        batchRecordCount = count
        recordCount = isFirst ? count : recordCount + count
        if isFirst {
            end = Timestamp(milliseconds: now.milliseconds + Self.milliseconds)
        }
    }

    func goesOn(now: Timestamp) -> Bool {
        recordCount < Self.recordCountMax && batchRecordCount >= Self.batchRecordCountMin
            && now < end
    }
}
