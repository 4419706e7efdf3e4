internal import TokenDomain

/// Where the records came in of which a stage has written dead letters.
///
/// A topic that was made anew has other records at those places: they are younger than the dead
/// letters of the old ones.
struct RefusedRecords {
    /// When the newest dead letter of each was written, UNIX milliseconds.
    private var times: [RecordPlace: Int64] = [:]

    mutating func insert(_ place: RecordPlace, at time: Int64) {
        times[place] = max(times[place] ?? .min, time)
    }

    /// `time` is when the record at the place was written, UNIX milliseconds.
    func contains(_ place: RecordPlace, writtenAt time: Int64) -> Bool {
        guard let refusedAt = times[place] else {
            return false
        }
        return time <= refusedAt + AccountWindow.margin.count
    }
}
