package import Kafka
internal import Telemetry
package import TokenDomain

/// What telemetry gets of a dead letter that was written: nothing of what it holds.
package struct WrittenDeadLetter: Sendable {
    package var fault: Fault
    package var origin: DeadLetter.Origin
    /// The story that it is part of.
    package var trace: TraceParent?
}

/// A dead letter: the record byte for byte, and headers that say what happened to it.
///
/// Kafka's own `__dlq.errors.*` names where it came from; `tollway.dlq.*` says why and how often.
/// All text is UTF-8, all headers of ours together at most ``headerByteCountMax`` bytes.
package struct DeadLetter {
    /// Dead-letter topics take the largest record of their sources (Kafka's default of
    /// 1,048,588 bytes) and 16 KiB more.
    ///
    /// The client counts up to 128 bytes of framing too.
    package static let topicByteCountMax = 1_048_588 + (16 << 10)
    /// 4 KiB: the dead-letter topics accept the source's largest record and 16 KiB more.
    package static let headerByteCountMax = 4_096
    /// A fault's sentence is cut to this, so that the other headers always fit.
    static let messageByteCountMax = 1_024
    /// Headers of an earlier failure are only as good as whoever wrote the topic: longer texts are
    /// not ours, and counts beyond this are no counts.
    static let historyByteCountMax = 64
    static let historyCountMax = 1_000_000

    /// Where the record came from.
    package struct Origin: Equatable, Sendable {
        package var topic: String
        package var partition: Int32
        package var offset: Int64
        package var group: String

        package init(topic: String, partition: Int32, offset: Int64, group: String) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
            self.group = group
        }
    }

    /// Names of headers that a replay drops and a second failure replaces.
    package static let diagnosticPrefixes = ["__dlq.errors.", "tollway.dlq."]

    /// The header that a replayed record carries.
    package static let replayIDName: StaticString = "tollway.dlq.replay_id"

    package var fault: Fault
    package var worker: Worker
    package var origin: Origin
    package var failedAt: Timestamp
    /// What an earlier failure of the same record left in its headers, if it was replayed.
    package var history: History

    package struct History: Equatable, Sendable {
        package var firstFailedAt: String?
        package var attempts: Int
        package var replayCount: Int
        package var replayID: String?

        package static let none = History(
            firstFailedAt: nil,
            attempts: 0,
            replayCount: 0,
            replayID: nil
        )
    }

    package init(
        fault: Fault,
        worker: Worker,
        origin: Origin,
        failedAt: Timestamp,
        history: History = .none
    ) {
        self.fault = fault
        self.worker = worker
        self.origin = origin
        self.failedAt = failedAt
        self.history = history
    }

    /// Appends the diagnostic headers to an arena.
    package func appendHeaders(to arena: inout [UInt8]) {
        let start = arena.count
        let failed = WallClock.rfc3339(milliseconds: failedAt.milliseconds)
        let pairs: [(String, String)] = [
            ("__dlq.errors.topic", origin.topic),
            ("__dlq.errors.partition", String(origin.partition)),
            ("__dlq.errors.offset", String(origin.offset)),
            ("__dlq.errors.group", origin.group),
            ("__dlq.errors.delivery.count", String(history.attempts + 1)),
            ("__dlq.errors.message", Self.cut(fault.message)),
            ("tollway.dlq.reason", String(fault.reason)),
            ("tollway.dlq.code", fault.code),
            ("tollway.dlq.fingerprint", fingerprint),
            ("tollway.dlq.stage", worker.rawValue),
            ("tollway.dlq.worker", "tollway-\(worker.rawValue)"),
            ("tollway.dlq.failed_at", failed),
            ("tollway.dlq.first_failed_at", history.firstFailedAt ?? failed),
            ("tollway.dlq.attempts", String(history.attempts + 1)),
            ("tollway.dlq.replay_count", String(history.replayCount)),
        ]
        for (name, value) in pairs {
            HeaderList.append(name: name.utf8, value: value.utf8, to: &arena)
        }
        if let replayID = history.replayID {
            HeaderList.append(name: "\(Self.replayIDName)".utf8, value: replayID.utf8, to: &arena)
        }
        precondition(
            arena.count - start <= Self.headerByteCountMax,
            "diagnostic headers are cut to fit"
        )
    }

    /// Groups faults of one kind: a hash of stage, code and the sentence with its digits folded, so
    /// that "byte 7" and "byte 12" are one group.
    ///
    /// ``FNV1a``, 16 hexadecimal digits.
    var fingerprint: String {
        var hash = FNV1a()
        var wasDigit = false
        for byte in "\(worker.rawValue)|\(fault.code)|\(fault.message)".utf8 {
            let isDigit = byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
            if !isDigit {
                hash.add(byte)
            } else if !wasDigit {
                hash.add(UInt8(ascii: "#"))
            }
            wasDigit = isDigit
        }
        let digits = String(hash.value, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static func cut(_ text: String) -> String {
        guard text.utf8.count > messageByteCountMax else {
            return text
        }
        var cut = ""
        for character in text {
            guard cut.utf8.count + character.utf8.count <= messageByteCountMax - 3 else {
                break
            }
            cut.append(character)
        }
        return cut + "…"
    }
}

extension DeadLetter.History {
    /// Reads what an earlier failure left in a record's headers.
    package init(headers range: ByteRange, of arena: [UInt8]) {
        self = .none
        guard range.count > 0 else {
            return
        }
        for (name, value) in HeaderList.entries(in: range, of: arena)
        where !value.isAbsent && value.count <= DeadLetter.historyByteCountMax {
            let text = String(decoding: arena[value.indices], as: UTF8.self)
            switch name {
            case "tollway.dlq.first_failed_at": firstFailedAt = text
            case "tollway.dlq.attempts": attempts = Self.count(text)
            case "tollway.dlq.replay_count": replayCount = Self.count(text)
            case "tollway.dlq.replay_id": replayID = text
            default: break
            }
        }
    }

    private static func count(_ text: String) -> Int {
        min(max(Int(text) ?? 0, 0), DeadLetter.historyCountMax)
    }
}
