import HTTPServer
import Testing

@Suite struct `The names that a server answers to` {
    private let rule = HostRule(names: ["ingest", "Tollway.Example"])

    @Test(arguments: [
        nil, "127.0.0.1", "127.0.0.1:9401", "10.1.2.3:80", "localhost", "LOCALHOST:1", "[::1]",
        "[::1]:9401", "[2001:db8::7]:80", "ingest", "ingest:9401", "tollway.example",
        "TOLLWAY.example:443",
    ])
    func `are addresses, localhost and those listed`(host: String?) {
        #expect(rule.accepts(host))
    }

    @Test(arguments: [
        "evil.example", "evil.example:9401", "localhost.evil.example", "127.0.0.1.evil.example",
        "ingest.evil.example", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.+4", "", "a b",
        "localhost,evil.example", "[::1", "[evil]", "[::1]evil.example", "localhost:80:80",
        "localhost:http", "evil@localhost", "0x7f.1.1.1", "::1",
    ])
    func `are no others`(host: String) {
        #expect(!rule.accepts(host))
    }
}
