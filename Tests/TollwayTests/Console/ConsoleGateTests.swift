import Crypto
import Foundation
import HTTPServer
import Testing

@testable import tollway

@Suite struct `The console's gate` {
    static let loopback = ListenAddress(host: "127.0.0.1", port: 9_490)
    static let anywhere = ListenAddress(host: "0.0.0.0", port: 9_490)
    static let people = [(digest: Hash.sha256(Array("a-key-of-16-bytes".utf8)), name: "mia")]

    static func request(
        _ method: String = "GET",
        _ headers: [(String, String)]
    ) -> HTTPRequest {
        let bytes: [UInt8] = headers.flatMap { header in
            Array("\(header.0)\0\(header.1)\0".utf8)
        }
        return HTTPRequest(
            id: HTTPRequest.ID(number: 1),
            method: method,
            path: "/api/session",
            query: "",
            body: [],
            remoteAddress: "127.0.0.1",
            headerBytes: bytes
        )
    }

    // MARK: - Start

    @Test func `needs neither key nor proxy on loopback`() throws {
        let gate = try ConsoleGate(Self.loopback)
        #expect(!gate.needsKey)
    }

    @Test(arguments: [nil, "http://console.example.com", "https://", "https://a/b", "https://a b"])
    func `does not start elsewhere without a proxy that speaks TLS`(origin: String?) {
        #expect(throws: CommandFailure.self) {
            try ConsoleGate(Self.anywhere, origin: origin, people: Self.people)
        }
    }

    @Test(arguments: [loopback, anywhere])
    func `does not start behind a proxy without keys`(address: ListenAddress) {
        #expect(throws: CommandFailure.self) {
            try ConsoleGate(address, origin: "https://console.example.com")
        }
    }

    // MARK: - Host

    @Test(arguments: [
        ("127.0.0.1:9490", true), ("localhost:9490", true), ("LOCALHOST:9490", true),
        ("[::1]:9490", true), ("127.0.0.1", false), ("127.0.0.1:80", false),
        ("evil.example:9490", false), ("evil.example", false), ("10.0.0.1:9490", false),
        ("", false),
        ("console.example.com", false), ("127.0.0.1:9490.evil.example", false),
    ])
    func `answers to its own names alone`(host: String, isOurs: Bool) throws {
        let gate = try ConsoleGate(Self.loopback)
        let request = Self.request("GET", [("Host", host)])
        if isOurs {
            try gate.checkHost(request, port: 9_490)
        } else {
            #expect(throws: ConsoleGate.Refusal.misdirected) {
                try gate.checkHost(request, port: 9_490)
            }
        }
    }

    @Test func `refuses a request without a host`() throws {
        let gate = try ConsoleGate(Self.loopback)
        #expect(throws: ConsoleGate.Refusal.misdirected) {
            try gate.checkHost(Self.request("GET", []), port: 9_490)
        }
    }

    @Test func `answers to the proxy's name`() throws {
        let gate = try ConsoleGate(
            Self.anywhere,
            origin: "https://Console.example.com",
            people: Self.people
        )
        let host = ("Host", "console.example.com")
        try gate.checkHost(Self.request("GET", [host]), port: 9_490)
        let origin = ("Origin", "https://console.example.com")
        try gate.checkOrigin(Self.request("POST", [host, origin]))
        #expect(throws: ConsoleGate.Refusal.crossSite) {
            let plain = ("Origin", "http://console.example.com")
            try gate.checkOrigin(Self.request("POST", [host, plain]))
        }
    }

    // MARK: - Origin

    @Test(
        arguments: [
            ("GET", nil, nil, true), ("GET", nil, "same-origin", true), ("GET", nil, "none", true),
            ("GET", nil, "cross-site", false), ("GET", nil, "same-site", false),
            ("GET", "http://evil.example", nil, false),
            ("POST", "http://127.0.0.1:9490", nil, true),
            ("POST", "http://127.0.0.1:9490", "same-origin", true),
            ("POST", "http://127.0.0.1:9490", "cross-site", false),
            ("POST", nil, nil, false), ("POST", "null", nil, false),
            ("POST", "http://localhost:9490", nil, false),
            ("POST", "https://127.0.0.1:9490", nil, false),
            ("POST", "http://evil.example", nil, false),
        ] as [(String, String?, String?, Bool)]
    )
    func `takes what a page of its own sends`(
        method: String,
        origin: String?,
        site: String?,
        isTaken: Bool
    ) throws {
        let gate = try ConsoleGate(Self.loopback)
        var headers = [("Host", "127.0.0.1:9490")]
        headers += origin.map { [("Origin", $0)] } ?? []
        headers += site.map { [("Sec-Fetch-Site", $0)] } ?? []
        let request = Self.request(method, headers)
        if isTaken {
            try gate.checkOrigin(request)
        } else {
            #expect(throws: ConsoleGate.Refusal.crossSite) {
                try gate.checkOrigin(request)
            }
        }
    }

    // MARK: - Keys and sessions

    @Test(arguments: [
        ("Bearer a-key-of-16-bytes", true), ("bearer a-key-of-16-bytes", true),
        ("Bearer a-key-of-16-byte", false), ("Bearer ", false), ("", false),
        ("Basic a-key-of-16-bytes", false), ("a-key-of-16-bytes", false),
    ])
    func `knows people by their keys`(header: String, isKnown: Bool) throws {
        let gate = try ConsoleGate(
            Self.anywhere,
            origin: "https://console.example.com",
            people: Self.people
        )
        let request = Self.request("GET", [("Authorization", header)])
        if isKnown {
            #expect(try gate.person(request).name == "mia")
        } else {
            #expect(throws: ConsoleGate.Refusal.noKey) { try gate.person(request) }
        }
    }

    @Test func `reads a name and a key a line`() throws {
        let folder = try TemporaryFolder()
        func file(_ text: String) throws -> String {
            let path = try folder.file("keys", Data(text.utf8)).path
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
            return path
        }
        let good = try file("mia a-key-of-16-bytes\n\nnoah other-16-byte-key\n")
        #expect(try ConsoleGate.people(good).map(\.name) == ["mia", "noah"])
        for text in ["", "a-key-of-16-bytes", "mia short", "mia a-key-of-16-bytes more"] {
            let bad = try file(text)
            #expect(throws: CommandFailure.self) { try ConsoleGate.people(bad) }
        }
    }

    @Test func `knows a page by a secret that ends`() {
        let mia = ConsoleGate.Person(name: "mia")
        var sessions = ConsoleSessions()
        let secret = sessions.open(for: mia, now: 0)
        #expect(secret.count == 64)
        let others = [
            sessions.accepts(secret, of: ConsoleGate.Person(name: "noah"), now: 0),
            sessions.accepts(nil, of: mia, now: 0), sessions.accepts("", of: mia, now: 0),
        ]
        #expect(others == [false, false, false])
        // Each use makes it last.
        let last = ConsoleSessions.milliseconds - 1
        let accepted = [last, 2 * last, 3 * last + 1].map {
            sessions.accepts(secret, of: mia, now: $0)
        }
        #expect(accepted == [true, true, false])
    }

    @Test func `closes the page that was unused for longest`() {
        let mia = ConsoleGate.Person(name: "mia")
        var sessions = ConsoleSessions()
        let secrets = (0..<ConsoleSessions.countMax).map { sessions.open(for: mia, now: Int64($0)) }
        // A page that comes again takes no place.
        let again = sessions.open(for: mia, known: secrets[0], now: 1_000)
        #expect(again == secrets[0])
        let guessed = sessions.open(for: mia, known: "guessed", now: 1_001)
        #expect(guessed != "guessed")
        let accepted = secrets.map { sessions.accepts($0, of: mia, now: 1_002) }
        #expect(accepted[0] && !accepted[1] && accepted.count { $0 } == secrets.count - 1)
        let noah = ConsoleGate.Person(name: "noah")
        let other = sessions.open(for: noah, known: secrets[0], now: 1_003)
        #expect(other != secrets[0])
    }
}
