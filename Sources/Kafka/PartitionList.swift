internal import CLibrdkafka
internal import Glibc

/// Partitions with their offsets, as librdkafka reads and writes them.
enum PartitionList {
    struct Entry {
        var topic: String
        var partition: Int32
        var offset: Int64
        var code: rd_kafka_resp_err_t
        /// What was committed with the offset.
        var metadata: String
        var hasFailed: Bool { code != RD_KAFKA_RESP_ERR_NO_ERROR }
    }

    /// Of one topic; the caller's to destroy.
    static func make(
        _ topic: String,
        _ offsets: [(partition: Int32, offset: Int64)],
        mark: String? = nil
    ) -> UnsafeMutablePointer<rd_kafka_topic_partition_list_t> {
        unsafe make(offsets.map { (TopicPartition(topic: topic, partition: $0), $1) }, mark: mark)
    }

    /// Of any topics, each with a ``CommitMark`` where they are to be committed; the caller's to destroy.
    static func make(
        _ places: [(partition: TopicPartition, offset: Int64)],
        mark: String? = nil
    ) -> UnsafeMutablePointer<rd_kafka_topic_partition_list_t> {
        guard let list = unsafe rd_kafka_topic_partition_list_new(Int32(places.count)) else {
            preconditionFailure("the library makes a list of any size")
        }
        for (place, offset) in places {
            let added = unsafe rd_kafka_topic_partition_list_add(list, place.topic, place.partition)
            unsafe added?.pointee.offset = offset
            guard let mark else {
                continue
            }
            // Text only: 2.0.2 cuts metadata at a zero byte (#4649).
            unsafe added?.pointee.metadata = UnsafeMutableRawPointer(strdup(mark))
            unsafe added?.pointee.metadata_size = mark.utf8.count
        }
        return unsafe list
    }

    /// A copy of what is in a list; empty where there is none.
    static func entries(of list: UnsafePointer<rd_kafka_topic_partition_list_t>?) -> [Entry] {
        guard let list = unsafe list?.pointee else {
            return []
        }
        return unsafe (0..<Int(list.cnt)).map { index in
            let element = unsafe list.elems[index]
            return unsafe Entry(
                topic: String(cString: element.topic),
                partition: element.partition,
                offset: element.offset,
                code: element.err,
                metadata: String(
                    decoding: UnsafeRawBufferPointer(
                        start: element.metadata,
                        count: element.metadata_size
                    ),
                    as: UTF8.self
                )
            )
        }
    }
}
