/// Kafka's murmur2, as Java's default partitioner has it: every client that writes a keyed topic of
/// ours must agree on it, or one token's records part ways.
package enum Partitioner {
    /// The partition of a key; `partitionCount` is above zero.
    package static func partition(ofKey key: Span<UInt8>, partitionCount: Int32) -> Int32 {
        precondition(partitionCount > 0, "a topic has at least one partition")
        return Int32(murmur2(key) & 0x7fff_ffff) % partitionCount
    }

    package static func murmur2(_ bytes: Span<UInt8>) -> UInt32 {
        let mix: UInt32 = 0x5bd1_e995
        var hash: UInt32 = 0x9747_b28c ^ UInt32(truncatingIfNeeded: bytes.count)
        var index = 0
        while index + 4 <= bytes.count {
            var word =
                UInt32(bytes[index]) | UInt32(bytes[index + 1]) << 8
                | UInt32(bytes[index + 2]) << 16 | UInt32(bytes[index + 3]) << 24
            word = word &* mix
            word ^= word >> 24
            word = word &* mix
            hash = hash &* mix
            hash ^= word
            index += 4
        }
        if index < bytes.count {
            for tail in (index..<bytes.count).reversed() {
                hash ^= UInt32(bytes[tail]) << (8 * UInt32(tail - index))
            }
            hash = hash &* mix
        }
        hash ^= hash >> 13
        hash = hash &* mix
        hash ^= hash >> 15
        return hash
    }
}

extension RecordBatch {
    /// Whether a keyed record is in another partition than its key's; no where the topic's
    /// partition count is not known.
    package func isMisplaced(_ record: Record, partitionCount: Int?) -> Bool {
        guard let partitionCount else {
            return false
        }
        let partition = Partitioner.partition(
            ofKey: arena.span.extracting(record.key.indices),
            partitionCount: Int32(partitionCount)
        )
        return partition != record.partition
    }
}
