internal import Crypto
internal import Foundation
internal import HTTPServer
internal import StageRuntime
internal import Telemetry

/// Who may ask the console, and from which pages.
///
/// A page of another site can make a browser send requests here (cross-site request forgery), and
/// can let a name of its own point here (DNS rebinding). So every request must name a host of ours,
/// whatever changes something must come from a page of ours, by its origin and by a secret that only
/// such a page was given.
struct ConsoleGate {
    /// Somebody who came in.
    struct Person: Equatable {
        /// As the audit names them.
        var name: String
    }

    enum Refusal: Error, Equatable {
        /// Another host, or none.
        case misdirected
        /// No key, or a wrong one.
        case noKey
        /// From a page of another site.
        case crossSite
        /// From a page whose session has ended, or is none.
        case noSession

        var status: Int {
            switch self {
            case .misdirected: 421
            case .noKey: 401
            case .crossSite, .noSession: 403
            }
        }

        var sentence: String {
            switch self {
            case .misdirected: "The Host header is none of this console's."
            case .noKey: "A key is needed."
            case .crossSite: "The request does not come from this console's own page."
            case .noSession:
                "This page's session has ended, or the console was started anew: load the page again."
            }
        }
    }

    private static let keyByteCountMin = 16
    private static let personCountMax = 100

    let address: ListenAddress
    /// By which browsers reach it through a proxy; nil: directly.
    let origin: String?
    /// SHA-256 of each key, and whose it is; nil: nobody needs one.
    private let people: [(digest: [UInt8], name: String)]?
    private let operatorName: String

    init(_ invocation: Invocation) throws(CommandFailure) {
        let listen = invocation.value("--listen") ?? ConsoleCommand.listenDefault
        guard let address = ListenAddress(listen) else {
            throw .usage("bad_value", "--listen is \"\(listen)\": it must be ADDRESS:PORT")
        }
        let keys = try invocation.value("--keys").map { (path) throws(CommandFailure) in
            try Self.people(path)
        }
        try self.init(address, origin: invocation.value("--origin"), people: keys)
    }

    init(
        _ address: ListenAddress,
        origin: String? = nil,
        people: [(digest: [UInt8], name: String)]? = nil,
        operatorName: String = String(HandOrder.user().prefix { $0 != "@" })
    ) throws(CommandFailure) {
        if let origin {
            let host = origin.dropFirst("https://".count)
            guard origin.hasPrefix("https://"), !host.isEmpty,
                host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") })
            else {
                throw .usage(
                    "bad_value",
                    "--origin is \"\(origin)\": it must be https:// and a host, without a path"
                )
            }
        }
        guard address.isLoopback || origin != nil else {
            throw .usage(
                "console_open",
                "\(address) can be reached from elsewhere, and the console speaks no TLS: name the"
                    + " proxy that does with --origin https://HOST, or listen on 127.0.0.1"
            )
        }
        guard people != nil || origin == nil else {
            throw .usage("console_open", "whoever comes by a proxy needs a key: --keys FILE")
        }
        self.address = address
        self.origin = origin?.lowercased()
        self.people = people
        self.operatorName = operatorName
    }

    /// Lines of a name and a key.
    static func people(
        _ path: String
    ) throws(CommandFailure) -> [(digest: [UInt8], name: String)] {
        let bytes: [UInt8]
        do throws(ConfigurationFault) {
            bytes = try SecretFile.read(path: path, setting: "--keys")
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
        var people: [(digest: [UInt8], name: String)] = []
        for (number, line) in bytes.split(separator: UInt8(ascii: "\n")).enumerated() {
            let words = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace)
            guard !words.isEmpty else {
                continue
            }
            guard words.count == 2, words[1].utf8.count >= keyByteCountMin else {
                throw .usage(
                    "bad_keys",
                    "--keys \(path), line \(number + 1): it must be a name and a key of at least"
                        + " \(keyByteCountMin) characters"
                )
            }
            people.append((Hash.sha256(Array(words[1].utf8)), String(words[0])))
        }
        guard (1...personCountMax).contains(people.count) else {
            throw .usage(
                "bad_keys",
                "--keys \(path) has \(people.count) keys: 1 to \(personCountMax) may be there"
            )
        }
        return people
    }

    var needsKey: Bool { people != nil }

    /// The address for a browser on this machine.
    func listen(port: UInt16) -> ListenAddress {
        ListenAddress(host: address.host, port: port)
    }

    // MARK: - Requests

    /// Whether it names a host of this console, which listens on that port.
    func checkHost(_ request: HTTPRequest, port: UInt16) throws(Refusal) {
        guard let host = request.header("host")?.lowercased(),
            hosts(port: port).contains(host)
        else {
            throw .misdirected
        }
    }

    /// Whether what changes or reads something comes from a page of ours.
    func checkOrigin(_ request: HTTPRequest) throws(Refusal) {
        // Every browser of these years says so itself; it names no page that is not ours.
        if let site = request.header("sec-fetch-site"), site != "same-origin", site != "none" {
            throw .crossSite
        }
        let given = request.header("origin")?.lowercased()
        guard given != nil || request.method == "GET" else {
            throw .crossSite
        }
        guard let given, let host = request.header("host")?.lowercased() else {
            return
        }
        let own = origin.map { $0 == "https://\(host)" ? $0 : "http://\(host)" } ?? "http://\(host)"
        guard given == own else {
            throw .crossSite
        }
    }

    func person(_ request: HTTPRequest) throws(Refusal) -> Person {
        guard let people else {
            return Person(name: operatorName)
        }
        let header = request.header("authorization") ?? ""
        let sent = Hash.sha256(Array(header.utf8.dropFirst("Bearer ".utf8.count)))
        var name: String?
        for person in people {
            var difference: UInt8 = 0
            for index in person.digest.indices {
                difference |= person.digest[index] ^ sent[index]
            }
            // No early return: which of the keys it was must not show.
            name = difference == 0 ? person.name : name
        }
        guard header.lowercased().hasPrefix("bearer "), let name else {
            throw .noKey
        }
        return Person(name: PlainText.printable(name, characterCountMax: 64))
    }

    /// With port, as browsers write them.
    private func hosts(port: UInt16) -> Set<String> {
        var hosts: Set = [listen(port: port).description.lowercased()]
        if address.isLoopback {
            hosts.formUnion(["127.0.0.1:\(port)", "localhost:\(port)", "[::1]:\(port)"])
        }
        if let origin {
            hosts.insert(String(origin.dropFirst("https://".count)))
        }
        return hosts
    }
}
