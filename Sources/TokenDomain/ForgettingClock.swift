/// The time by which a key or an account must have expired to be forgotten.
///
/// What is forgotten too early is counted, and reported, a second time. So no clock is believed
/// alone: what is forgotten has expired by this machine's clock *and* by the times of the records
/// read last, which the machines set that wrote them.
///
/// | which clock is wrong | what follows |
/// | --- | --- |
/// | this machine's, ahead: for a moment, for months, from its start | the records' times hold it back |
/// | this machine's, behind | it is forgotten later |
/// | a writer's, ahead | this machine's clock holds it back |
/// | a writer's, behind; or a backlog is read | it is forgotten later |
/// | all together, ahead | time leaps: nothing is forgotten for ``pause`` |
///
/// The last row is a time server that is wrong, or one machine that runs this worker and all that
/// write for it. Beyond the pause it looks like time that passed while nothing ran; every report
/// and receipt is wrong by then.
///
/// Where no records come, nothing is forgotten, and nothing grows.
package struct ForgettingClock: Sendable {
    /// Time that passed between two records by more than this has leapt.
    ///
    /// Keys outlive their tokens by ``SeenBefore/keyLifetime``: less does no harm.
    package static let leapMin = Milliseconds.hours(24)
    /// A clock that was set back by more than this was wrong before.
    package static let setBackMin = Milliseconds.hours(1)
    /// So long nothing is forgotten after a leap or a clock that was set back.
    package static let pause = Milliseconds.hours(24)
    /// The same after a start: a worker that is started every day must come to it.
    package static let pauseAtStart = Milliseconds.hours(1)

    /// Of the records read last, the oldest.
    private var recordTime: Timestamp?
    private var wallTime: Timestamp?
    /// The latest time that was believed.
    private var latest: Timestamp?
    private var resumesAt = Timestamp(milliseconds: .min)

    package init() {}

    /// Records were read, the oldest of this time: of many writers the one that is behind counts.
    package mutating func heard(recordTime: Timestamp) {
        self.recordTime = recordTime
    }

    /// The time by which what is forgotten must have expired; nil: nothing may be forgotten.
    ///
    /// `now` is this machine's clock.
    package mutating func horizon(now: Timestamp) -> Timestamp? {
        let isSetBack = wallTime.map { $0 - now > Self.setBackMin } ?? false
        wallTime = now
        guard let recordTime else {
            return nil
        }
        let believed = min(now, recordTime)
        if let latest, !isSetBack {
            if believed - latest > Self.leapMin {
                resumesAt = believed + Self.pause
            }
            self.latest = max(latest, believed)
        } else {
            resumesAt = believed + (latest == nil ? Self.pauseAtStart : Self.pause)
            latest = believed
        }
        return believed < resumesAt ? nil : believed
    }
}
