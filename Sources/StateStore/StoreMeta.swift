/// A store's metadata, written in the same atomic write as the changes it describes.
struct StoreMeta: Equatable {
    /// The form of what lies on the disk; another one is wiped and replayed.
    static let formatVersion: UInt8 = 3
    static let key: [UInt8] = Array("meta".utf8)
    /// Kafka topic names have at most 249 characters, a partition's number 10.
    static let identityByteCountMax = 512
    private static let fixedByteCount = 17

    /// The changelog it belongs to, topic and partition.
    var changelogIdentity: String
    /// The changelog offset up to which it is complete; nil before the first change.
    var changelogOffset: Int64?
    /// UNIX milliseconds of the last write.
    var lastUsedMilliseconds: Int64

    /// The identity without the form: topic and partition.
    var changelog: String {
        let form = changelogIdentity.drop { $0 != " " }
        guard form.hasPrefix(StateDirectory.formMark) else {
            return changelogIdentity
        }
        let topic = changelogIdentity.prefix { $0 != " " }
        let partition = form.drop { $0 != "/" }
        return String(topic) + String(partition)
    }

    /// Version, offset, time (both little-endian), identity.
    func encoded() -> [UInt8] {
        var bytes: [UInt8] = [Self.formatVersion]
        for word in [changelogOffset ?? -1, lastUsedMilliseconds] {
            for shift in stride(from: 0, to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: word >> Int64(shift)))
            }
        }
        bytes.append(contentsOf: changelogIdentity.utf8.prefix(Self.identityByteCountMax))
        return bytes
    }

    /// Nil where the bytes are of another version or of no version at all.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= Self.fixedByteCount, bytes[0] == Self.formatVersion else {
            return nil
        }
        let offset = Self.word(at: 1, of: bytes)
        changelogOffset = offset < 0 ? nil : offset
        lastUsedMilliseconds = Self.word(at: 9, of: bytes)
        changelogIdentity = String(decoding: bytes[Self.fixedByteCount...], as: UTF8.self)
    }

    init(changelogIdentity: String, changelogOffset: Int64?, lastUsedMilliseconds: Int64) {
        self.changelogIdentity = changelogIdentity
        self.changelogOffset = changelogOffset
        self.lastUsedMilliseconds = lastUsedMilliseconds
    }

    private static func word(at position: Int, of bytes: [UInt8]) -> Int64 {
        var word: UInt64 = 0
        for index in 0..<8 {
            word |= UInt64(bytes[position + index]) << UInt64(8 * index)
        }
        return Int64(bitPattern: word)
    }
}
