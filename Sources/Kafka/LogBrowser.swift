/// Reads partitions from given places to their ends, without a group: for the command and tests.
package final class LogBrowser {
    package enum Isolation: Sendable {
        case readCommitted
        case readUncommitted
    }

    package enum Start: Equatable, Sendable {
        case earliest
        case offset(Int64)
        /// The first record not older than this, UNIX milliseconds.
        case timestamp(Int64)
    }

    /// Full names of the topics; `Record.topic` is an index into it.
    package let topics: [String]

    /// - Parameter deadlineMilliseconds: for the questions asked at start.
    package init(
        settings: KafkaSettings,
        topics: [String],
        isolation: Isolation = .readCommitted,
        deadlineMilliseconds: Int = 10_000
    ) throws(LogFault) {
        self.topics = topics
        throw LogFault.unusable(message: "not built yet")
    }

    /// Starts on every partition of every topic at one place. Their ends are what they are now.
    package func start(from place: Start = .earliest) throws(LogFault) {}
    /// Starts on the partitions given.
    package func start(at places: [TopicPartition: Start]) throws(LogFault) {}

    /// Appends what is there.
    ///
    /// - Returns: true once every partition was read to the end that it had at the start; more may
    ///   be read after that.
    package func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) -> Bool { true }

    package func close() {}
}
