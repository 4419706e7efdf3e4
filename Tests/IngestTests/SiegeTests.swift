import Glibc
import HTTPClient
import HTTPServer
import MessageExamples
import Testing

@testable import ingest

/// Attackers that hold connections and bodies, and honest clients beside them.
@Suite struct `The door of ingest under siege` {
    private static let key = "0123456789abcdef"

    /// A socket that sends any bytes, as far as the server takes them.
    private final class Attacker {
        private let client: RawClient
        private var unsent: ArraySlice<UInt8>

        convenience init(port: UInt16, _ head: String, bodyByteCount: Int) throws {
            let body = String(repeating: " ", count: bodyByteCount)
            try self.init(port: port, head + body)
        }

        init(port: UInt16, _ text: String) throws {
            client = try RawClient(port: port)
            unsent = Array(text.utf8)[...]
        }

        /// Sends on; false once the server has let it go.
        func push() -> Bool {
            while !unsent.isEmpty {
                let count = unsafe unsent.withUnsafeBytes {
                    unsafe send(client.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else {
                    return errno == EAGAIN
                }
                unsent.removeFirst(count)
            }
            var byte: UInt8 = 0
            return unsafe recv(client.descriptor, &byte, 1, 0) < 0 && errno == EAGAIN
        }
    }

    /// Who attacks, and with what.
    struct Attack: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var path = "/v1/tokens"
        var hasKey = false
        var byteCount = 1 << 20
        var count = 32
    }

    @Test(arguments: [
        Attack(testDescription: "without a key"),
        Attack(testDescription: "with a key", hasKey: true),
        Attack(
            testDescription: "on the way without key",
            path: "/v1/notifications",
            byteCount: 64 << 10,
            count: 80
        ),
    ])
    func `stays open to honest clients`(attack: Attack) throws {
        let bench = try IngestBench(keys: [Self.key])
        let head =
            "POST \(attack.path) HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + (attack.hasKey ? "Authorization: Bearer \(Self.key)\r\n" : "")
            + "Content-Length: \(attack.byteCount)\r\n\r\n"
        // Half of them hold back the last byte, half send one; a closed one connects again.
        func make(_ index: Int) throws -> Attacker {
            try Attacker(
                port: bench.server.port,
                head,
                bodyByteCount: index % 2 == 0 ? attack.byteCount - 1 : 1
            )
        }
        var attackers = try (0..<attack.count).map(make)
        var letGoCount = 0
        func renew() throws {
            for index in attackers.indices where !attackers[index].push() {
                letGoCount += 1
                attackers[index] = try make(index)
            }
        }
        let token = "{\"token\":\"\(String(repeating: "A", count: 300))\"}"
        let batch = Array(repeating: token, count: 1_000).joined(separator: "\n")
        var statuses: [Int: Int] = [:]
        for number in 0..<100 {
            try renew()
            let tag = UInt64(number)
            let isBatch = number % 4 == 0
            bench.post(
                "/v1/tokens",
                isBatch ? batch : token,
                type: isBatch ? "application/x-ndjson" : "application/json",
                tag: tag,
                key: Self.key
            )
            #expect(bench.turn { bench.answers[tag] != nil })
            statuses[bench.answers[tag]?.status ?? 0, default: 0] += 1
        }
        // One may be closed: a batch that comes in while all of them step, and is behind them all.
        #expect(statuses[202, default: 0] >= 99)
        let lanes = Route.allCases.map { bench.server.incompleteByteCount(lane: $0.lane) }
        for (lane, route) in zip(lanes, Route.allCases) {
            #expect(lane <= route.incompleteByteCountMax)
        }
        if !attack.hasKey, attack.path == "/v1/tokens" {
            #expect(lanes == [0, 0, 0, 0])
            #expect(letGoCount >= attack.count)
        }
    }

    /// Each connection has the next forgery in it already when the one before is refused.
    @Test func `has connections left while forged notifications fill the line`() throws {
        let bench = try IngestBench(keys: [Self.key])
        let forged = try bench.apple.forge(#"{"signedDate":1700000000000}"#)
        let body = "{\"signedPayload\":\"\(forged)\"}"
        let request =
            "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        let pipelined = String(repeating: request, count: 3)
        let connectionCount = IngestRun.serverLimits.connectionCountMax
        let attackers = try (0..<connectionCount).map { _ in
            let attacker = try Attacker(port: bench.server.port, pipelined)
            _ = attacker.push()
            try bench.loop.turn()
            return attacker
        }
        #expect(bench.turn(seconds: 60) { bench.server.heldRequestCount >= 256 })
        let token = "{\"token\":\"\(String(repeating: "A", count: 300))\"}"
        for tag in 0..<UInt64(20) {
            bench.post("/v1/tokens", token, tag: tag, key: Self.key)
            #expect(bench.turn { bench.answers[tag] != nil })
            #expect(bench.answers[tag]?.status == 202)
            attackers.forEach { _ = $0.push() }
        }
        #expect(bench.server.heldRequestCount < connectionCount / 2)
    }

    /// Each holds a body of which one byte came with the head, so it is never a silent one, and never
    /// one with a part of a head.
    @Test func `cuts off no batch while bodies without a key take all connections`() throws {
        let bench = try IngestBench(keys: [Self.key])
        let line = "{\"token\":\"\(String(repeating: "A", count: 300))\"}\n"
        func request(lineCount: Int) -> String {
            "POST /v1/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(Self.key)\r\n"
                + "Content-Type: application/x-ndjson\r\n"
                + "Content-Length: \(lineCount * line.utf8.count)\r\n\r\n"
                + String(repeating: line, count: lineCount)
        }
        func attack() throws -> Attacker {
            let attacker = try Attacker(
                port: bench.server.port,
                "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    + "Content-Length: 60000\r\n\r\n{"
            )
            _ = attacker.push()
            try bench.loop.turn()
            return attacker
        }
        let kept = try RawClient(port: bench.server.port)
        kept.send(request(lineCount: 1)[...])
        #expect(bench.turn { kept.receive() && kept.received.contains(" 202 ") })

        var attackers = try (0..<IngestRun.serverLimits.connectionCountMax).map { _ in
            try attack()
        }
        let batch = try RawClient(port: bench.server.port)
        let text = request(lineCount: 200)
        let half = text.index(text.startIndex, offsetBy: text.count / 2)
        batch.send(text[..<half])
        #expect(
            bench.turn { bench.server.incompleteByteCount(lane: Route.tokens.lane) > 0 }
        )
        attackers += try (0..<50).map { _ in try attack() }
        batch.send(text[half...])
        #expect(bench.turn { !batch.receive() || batch.received.contains("\r\n\r\n") })
        #expect(batch.received.hasPrefix("HTTP/1.1 202 "))
        #expect(kept.receive())
        // Each that gave way has its answer, and what was closed for a newcomer had one.
        let lane = Route.notifications.lane
        #expect(bench.server.refusalCount(status: 408, lane: lane) == attackers.count - 256)
        #expect(bench.server.evictionCount(.lingering) > 0)
        #expect(bench.server.evictionCount(.idle) == 0)
        #expect(Route.allCases.allSatisfy { bench.server.evictionCount(.body(lane: $0.lane)) == 0 })
        #expect(
            bench.rendered.contains(
                "tollway_ingest_connections_evicted_total{state=\"lingering\",route=\"other\"} "
                    + "\(bench.server.evictionCount(.lingering))\n"
            )
        )
        #expect(attackers.count > IngestRun.serverLimits.connectionCountMax)
    }
}
