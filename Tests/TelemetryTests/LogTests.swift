import Foundation
import Synchronization
import Telemetry
import Testing

/// A log whose clock is turned and whose lines are kept.
private final class LogBench: Sendable {
    let lines = Mutex<[String]>([])
    let time = Mutex<Int64>(1_700_000_000_123)

    func log(_ format: Log.Format = .json) -> Log {
        Log(
            worker: "decode",
            format: format,
            now: { self.time.withLock { $0 } },
            write: { line in self.lines.withLock { $0.append(line) } }
        )
    }

    func objects() throws -> [[String: Any]] {
        try lines.withLock { $0 }.map { line in
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8))
            return try #require(object as? [String: Any])
        }
    }
}

@Suite struct `A log` {
    @Test func `writes one JSON object a line`() throws {
        let bench = LogBench()
        bench.log().warning(
            "a \"quoted\" message",
            ("topic", "a\nb\u{1}"),
            ("offset", 17),
            ("seconds", 0.5),
            ("owned", true)
        )
        let line = try #require(bench.lines.withLock { $0 }.first)
        #expect(line.hasSuffix("}\n"))
        #expect(line.dropLast().contains("\n") == false)
        let object = try #require(try bench.objects().first)
        #expect(object["time"] as? String == "2023-11-14T22:13:20.123Z")
        #expect(object["level"] as? String == "warning")
        #expect(object["worker"] as? String == "decode")
        #expect(object["message"] as? String == "a \"quoted\" message")
        #expect(object["topic"] as? String == "a\nb\u{1}")
        #expect(object["offset"] as? Int == 17)
        #expect(object["seconds"] as? Double == 0.5)
        #expect(object["owned"] as? Bool == true)
    }

    @Test func `writes text for a terminal on one line`() {
        let bench = LogBench()
        bench.log(.text).error("broken", ("why", "a\nb"))
        #expect(
            bench.lines.withLock { $0 } == ["22:13:20.123 error: decode: broken why=\"a\\nb\"\n"]
        )
    }

    @Test func `holds a repeated message back for a minute and says how often`() throws {
        let bench = LogBench()
        let log = bench.log()
        for _ in 0..<4 {
            log.limited(.warning, "the broker is away", ("code", "x"))
        }
        log.limited(.warning, "another message")
        bench.time.withLock { $0 += Log.repeatIntervalMilliseconds - 1 }
        log.limited(.warning, "the broker is away")
        #expect(bench.lines.withLock { $0.count } == 2)
        bench.time.withLock { $0 += 1 }
        log.limited(.warning, "the broker is away")
        let objects = try bench.objects()
        #expect(objects.count == 3)
        #expect(objects[0]["repeated"] == nil)
        #expect(objects[2]["repeated"] as? Int == 4)
    }

    @Test func `tells one app's trouble although another's was told`() throws {
        let bench = LogBench()
        let log = bench.log()
        for app in ["1", "2", "1", "2", "2"] {
            log.limited(.error, "a key is broken", per: app, ("appAppleId", .text(app)))
        }
        #expect(try bench.objects().map { $0["appAppleId"] as? String } == ["1", "2"])
    }

    @Test func `tells a thousand subjects apart, and those beyond in one line`() throws {
        let bench = LogBench()
        let log = bench.log()
        for number in 0..<Log.subjectCountMax + 2 {
            log.limited(.error, "a token is forged", per: "\(number)")
        }
        #expect(bench.lines.withLock { $0.count } == Log.subjectCountMax + 1)
        bench.time.withLock { $0 += Log.repeatIntervalMilliseconds }
        log.writeWithheld()
        log.limited(.error, "a token is forged", per: "new")
        #expect(bench.lines.withLock { $0.count } == Log.subjectCountMax + 3)
    }

    @Test func `writes at the minute's end what it kept back last, and how often`() throws {
        let bench = LogBench()
        let log = bench.log()
        for offset in Int64(0)..<3 {
            log.limited(.error, "an order is unreadable", ("offset", .integer(offset)))
        }
        log.limited(.warning, "the broker is away")
        log.writeWithheld()
        bench.time.withLock { $0 += Log.repeatIntervalMilliseconds - 1 }
        log.writeWithheld()
        #expect(bench.lines.withLock { $0.count } == 2)
        bench.time.withLock { $0 += 1 }
        log.writeWithheld()
        let objects = try bench.objects()
        #expect(objects.count == 3)
        #expect(objects[2]["level"] as? String == "error")
        #expect(objects[2]["offset"] as? Int == 2)
        #expect(objects[2]["repeated"] as? Int == 2)
        log.limited(.error, "an order is unreadable")
        log.writeWithheld()
        #expect(bench.lines.withLock { $0.count } == 3)
    }

    @Test func `is not silenced by a clock that is set back`() {
        let bench = LogBench()
        let log = bench.log()
        log.limited(.info, "turning")
        bench.time.withLock { $0 -= 3_600_000 }
        log.limited(.info, "turning")
        #expect(bench.lines.withLock { $0.count } == 2)
    }

    @Test(arguments: [
        String(repeating: "eyJhcHBBcHBsZUlk", count: 16),
        String(repeating: "a", count: LogValue.secretRunLengthMin),
        "Bearer " + String(repeating: "Zm9v", count: 30) + ".tail",
        String(repeating: "Zm9v/Zm9vYmFy", count: 8),
        "-----BEGIN PRIVATE KEY-----\n"
            + Array(repeating: String(repeating: "MIGH", count: 16), count: 3)
            .joined(separator: "\n"),
    ])
    func `masks what looks like a token or a key`(secret: String) {
        let bench = LogBench()
        bench.log().info("request", ("field", .text(secret)))
        let line = bench.lines.withLock { $0.joined() }
        #expect(!line.contains(secret.prefix(90)))
        #expect(line.contains("masked"))
    }

    /// Masked runs before it make room for what is near the end of what is looked at.
    @Test func `masks a run that it does not see the end of`() {
        let bench = LogBench()
        let tail = String(repeating: "s", count: LogValue.secretRunLengthMin)
        let head = String(repeating: "a", count: LogValue.textByteCountMax + 39) + " "
        bench.log().info("request", ("field", .text(head + tail)))
        #expect(!bench.lines.withLock { $0.joined() }.contains("ssss"))
    }

    @Test func `shows a path`() {
        let bench = LogBench()
        let path = "/externalPurchase/v1/reports/00000000-0000-4000-8000-000000000000"
        bench.log().info("request", ("path", .text(path)))
        #expect(bench.lines.withLock { $0.joined() }.contains(path))
    }

    @Test func `shows identifiers, and cuts what is too long`() {
        let bench = LogBench()
        let identifier = "SANDBOX_00000000-0000-0000-0000-000000000000"
        bench.log().info("request", ("id", .text(identifier)))
        bench.log().info("request", ("id", .text(String(repeating: "ab ", count: 4_000))))
        let lines = bench.lines.withLock { $0 }
        #expect(lines[0].contains(identifier))
        #expect(lines[1].utf8.count < LogValue.textByteCountMax + 200)
    }

    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00.000Z"),
        (951_827_696_789, "2000-02-29T12:34:56.789Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        (Int64.max, "9999-12-31T23:59:59.999Z"),
        (Int64.min, "0000-01-01T00:00:00.000Z"),
    ])
    func `writes times as RFC 3339`(milliseconds: Int64, text: String) {
        #expect(WallClock.rfc3339(milliseconds: milliseconds) == text)
    }
}
