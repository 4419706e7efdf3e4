import HTTPClient
import HTTPServer
import Testing

@testable import ingest

@Suite struct `What the server of ingest refuses by itself` {
    private static let key = "0123456789abcdef"

    /// Goal: the alarm for refused requests sees batches that are too large, by their route.
    @Test(arguments: [
        ("Content-Length: \(IngestLimits.batchByteCountMax + 1)\r\n\r\n", "/v1/tokens", 413),
        ("Content-Length: 999999999999999999\r\n\r\n", "/v1/tokens", 413),
        ("Transfer-Encoding: chunked\r\n\r\n100001\r\n", "/v1/tokens", 413),
        ("Transfer-Encoding: chunked\r\n\r\nno\r\n", "/v1/tokens", 400),
        // A digit more, and more than a signed number of 64 bits holds: the head itself is refused.
        ("Content-Length: 1000000000000000000\r\n\r\n", "other", 413),
        ("Content-Length: 9223372036854775808\r\n\r\n", "other", 413),
        ("Long: \(String(repeating: "a", count: 16 << 10))\r\n\r\n", "other", 431),
        ("Content-Length: no\r\n\r\n", "other", 400),
    ])
    func `counts what the server refused by itself`(rest: String, route: String, status: Int)
        throws
    {
        let bench = try IngestBench(keys: [Self.key])
        let head =
            "POST /v1/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(Self.key)\r\n"
            + "Content-Type: application/x-ndjson\r\n"
        let series = "tollway_ingest_requests_total{route=\"\(route)\",status=\"\(status)\"}"
        let client = try RawClient(port: bench.server.port)
        client.send((head + rest)[...])
        #expect(bench.turn { !client.receive() || client.received.contains("\r\n\r\n") })
        #expect(client.received.hasPrefix("HTTP/1.1 \(status) "))
        try bench.loop.turn()
        #expect(bench.rendered.contains("\(series) 1\n"))
    }

    @Test func `asks for a key before it says that a body is too large`() throws {
        let bench = try IngestBench(keys: [Self.key])
        let large = String(repeating: "a", count: IngestLimits.batchByteCountMax + 1)
        #expect(try bench.answer("/v1/tokens", large).status == 401)
        #expect(try bench.answer("/v1/none", large).status == 404)
    }

    /// Goal: the first refusal of its kind is an increase to Prometheus.
    @Test(arguments: [
        "requests_total{route=\"/v1/tokens\",status=\"413\"}",
        "requests_total{route=\"/v1/purchases\",status=\"408\"}",
        "requests_total{route=\"other\",status=\"431\"}",
        "requests_total{route=\"other\",status=\"503\"}",
        "notifications_refused_total{code=\"ingest.foreign_source\"}",
    ])
    func `is there at zero before anything was refused`(series: String) throws {
        #expect(try IngestBench().rendered.contains("tollway_ingest_\(series) 0\n"))
    }
}
