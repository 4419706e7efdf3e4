package import Kafka
package import TokenDomain

extension RecordBatch.Record {
    /// Kafka's own time of it; nil where it has none.
    package var time: Timestamp? {
        timestampMilliseconds >= 0 ? Timestamp(milliseconds: timestampMilliseconds) : nil
    }
}
