extension TokenReceived {
    /// A `receivedAt` farther than this from the record's own time is not believed.
    package static let receivedAtToleranceMax = Milliseconds.days(7)

    /// When a token was received: what the record says, or its own time where it says nothing or
    /// something more than seven days off.
    package static func receivedAt(stated: Timestamp?, recordTime: Timestamp) -> Timestamp {
        guard let stated else {
            return recordTime
        }
        let distance = stated - recordTime
        let isNear = distance <= receivedAtToleranceMax && -distance <= receivedAtToleranceMax
        return isNear ? stated : recordTime
    }
}
