/// Sums of numbers that another program has written, which may be any: what is too large counts as
/// the largest there is.
extension Int64 {
    func adding(saturating other: Int64) -> Int64 {
        let (sum, isBeyond) = addingReportingOverflow(other)
        return isBeyond ? (other < 0 ? .min : .max) : sum
    }

    func subtracting(saturating other: Int64) -> Int64 {
        let (difference, isBeyond) = subtractingReportingOverflow(other)
        return isBeyond ? (other < 0 ? .max : .min) : difference
    }
}
