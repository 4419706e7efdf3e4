internal import TokenDomain

/// Entries of the due table looked at in one slice.
enum SliceLimit {
    static let entryCountMax = 10_000
    /// Counted a second, on an average.
    static let entriesPerSecond = 2_500
    static let restMax = rest(after: entryCountMax)

    static func rest(after entryCount: Int) -> Milliseconds {
        Milliseconds(Int64(entryCount) * 1_000 / Int64(entriesPerSecond))
    }
}
