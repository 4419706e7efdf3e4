internal import Kafka

/// Where the diagnostic headers of one dead letter lie, found in one walk without an allocation.
struct DeadLetterHeaders {
    enum Field: Int, CaseIterable {
        // In the order in which they are written, so that the first guess is right.
        case topic, partition, offset, message, reason, code, fingerprint, failedAt
        case firstFailedAt, attempts, replayCount, replayID, omittedByteCount

        var name: String {
            switch self {
            case .topic: "__dlq.errors.topic"
            case .partition: "__dlq.errors.partition"
            case .offset: "__dlq.errors.offset"
            case .message: "__dlq.errors.message"
            case .reason: "tollway.dlq.reason"
            case .code: "tollway.dlq.code"
            case .fingerprint: "tollway.dlq.fingerprint"
            case .failedAt: "tollway.dlq.failed_at"
            case .firstFailedAt: "tollway.dlq.first_failed_at"
            case .attempts: "tollway.dlq.attempts"
            case .replayCount: "tollway.dlq.replay_count"
            case .replayID: "tollway.dlq.replay_id"
            case .omittedByteCount: "tollway.dlq.omitted_bytes"
            }
        }
    }

    private static let names = Field.allCases.map { Array($0.name.utf8) }

    private var ranges = InlineArray<13, ByteRange>(repeating: .absent)

    /// A header that stands twice counts as it stands last.
    init(_ headers: ByteRange, in arena: Span<UInt8>) {
        var cursor = HeaderCursor(headers)
        var guess = 0
        while let (name, value) = cursor.next(in: arena) {
            let text = arena.extracting(name.indices)
            if guess < Self.names.count, text.isEqual(to: Self.names[guess]) {
                ranges[guess] = value
                guess += 1
            } else if let index = Self.names.firstIndex(where: { text.isEqual(to: $0) }) {
                ranges[index] = value
                guess = index + 1
            }
        }
    }

    subscript(field: Field) -> ByteRange { ranges[field.rawValue] }

    func text(_ field: Field, of arena: [UInt8]) -> String {
        String(decoding: arena[self[field].indices], as: UTF8.self)
    }

    /// A count; 0 where there is none, or none that can be read.
    func number(_ field: Field, in arena: Span<UInt8>) -> Int64 {
        DecimalText.read(arena.extracting(self[field].indices)) ?? 0
    }

    /// A time in UNIX milliseconds; nil where there is none, or none that can be read.
    func time(_ field: Field, in arena: Span<UInt8>) -> Int64? {
        InstantText.read(arena.extracting(self[field].indices))
    }
}

extension Span<UInt8> {
    func isEqual(to bytes: [UInt8]) -> Bool {
        guard count == bytes.count else {
            return false
        }
        for index in indices where self[index] != bytes[index] {
            return false
        }
        return true
    }

    func starts(with bytes: [UInt8]) -> Bool {
        count >= bytes.count && extracting(0..<bytes.count).isEqual(to: bytes)
    }
}
