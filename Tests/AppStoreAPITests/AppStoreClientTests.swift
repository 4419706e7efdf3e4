import AppStoreAPI
import Crypto
import Glibc
import HTTPClient
import HTTPServer
import Testing
import TokenDomain

/// The client of `report` against a server on this machine that answers whatever it likes.
@Suite struct `Apple over HTTP` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)
    static let identifier = "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f"
    static let lane = Lane(appAppleID: 1, environment: .production)

    enum Act: Sendable {
        case answer(Int, [(String, String)], [UInt8])
        case reset, torn, silence
    }

    struct Row: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var act: Act
        var reply: AppleReply

        init(
            _ name: String,
            _ status: Int,
            headers: [(String, String)] = [],
            _ body: String = "",
            isPage: Bool = false,
            errors: [AppleError]? = nil,
            acknowledged: String? = nil,
            retryAfter: Timestamp? = nil
        ) {
            testDescription = name
            act = .answer(status, headers, Array(body.utf8))
            reply = AppleReply(
                transport: .answered(status: status),
                isPage: isPage,
                errors: errors,
                acknowledged: acknowledged,
                retryAfter: retryAfter
            )
        }

        init(_ name: String, _ act: Act, _ kind: TransportFailure.Kind) {
            testDescription = name
            self.act = act
            reply = AppleReply(transport: .doubtful, failure: TransportFailure(kind))
        }
    }

    static let rows: [Row] = [
        Row(
            "accepted",
            200,
            #"{"requestIdentifier":"\#(identifier)"}"#,
            acknowledged: identifier
        ),
        Row("an empty 200", 200),
        Row("a blank 200", 200, " \r\n"),
        Row("a 200 with an empty object", 200, "{ }\n"),
        Row("a 200 with another object", 200, "{\"status\":1}"),
        Row(
            "a page",
            200,
            headers: [("Content-Type", "text/html")],
            "\n<html>OK</html>",
            isPage: true
        ),
        Row("an array", 200, #"["\#(identifier)"]"#),
        Row("a number for an identifier", 200, #"{"requestIdentifier":5}"#),
        Row("more than a megabyte", 200, String(repeating: " ", count: 1 << 20) + "{}"),
        Row("nested without end", 400, String(repeating: "[", count: 200_000)),
        Row("half an object", 400, #"{"errors":[{"errorCode":3"#),
        Row("an error list that is none", 400, #"{"errors":{"errorCode":"3"}}"#),
        Row(
            "one bare error",
            400,
            #"{"errorCode":3,"errorMessage":"…","fieldName":"requestIdentifier"}"#,
            errors: [AppleError(code: 3, fieldName: "requestIdentifier", lineItemID: nil)]
        ),
        Row("a code beyond 64 bits", 400, #"{"errors":[{"errorCode":99999999999999999999}]}"#),
        Row("a redirect to itself", 302, headers: [("Location", "/again")]),
        Row("401 as text", 401, "Unauthenticated\n"),
        Row(
            "429 in Apple's milliseconds",
            429,
            headers: [("Retry-After", "1768003260000")],
            #"{"errorCode":4290000,"errorMessage":"…"}"#,
            errors: [AppleError(code: 4_290_000, fieldName: nil, lineItemID: nil)],
            retryAfter: now + .minutes(1)
        ),
        Row(
            "429 years ahead",
            429,
            headers: [("Retry-After", "9223372036854775807")],
            retryAfter: now + .minutes(65)
        ),
        Row("429 in words", 429, headers: [("Retry-After", "soon")]),
        Row("429 below zero", 429, headers: [("Retry-After", "-5")]),
        Row("429 with nothing", 429),
        Row("a reset", .reset, .reset),
        Row("an answer that breaks off", .torn, .reset),
        Row("no answer", .silence, .timeout),
    ]

    @Test(arguments: rows)
    func `is found from status and body, whatever they are`(row: Row) throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        defer { server.close() }
        let client = try Self.client(url: "http://127.0.0.1:\(server.port)")
        client.submit(Self.request, now: Self.now)
        var requestCount = 0
        var replies: [AppleReply] = []
        while replies.isEmpty {
            var descriptors = [server.wakeDescriptor, client.wakeDescriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = unsafe poll(&descriptors, 2, 20)
            server.run()
            for request in server.takeRequests() {
                requestCount += 1
                #expect(request.path == "/externalPurchase/v1/reports")
                switch row.act {
                case .answer(let status, let headers, let body):
                    server.respond(to: request.id, status: status, headers: headers, body: body)
                case .reset:
                    server.reset(request.id)
                case .torn:
                    server.respondTorn(to: request.id, status: 200, body: Array("{}".utf8))
                case .silence:
                    break
                }
            }
            server.run()
            replies += client.collect(now: Self.now).map { Self.withoutSentence($0.reply) }
        }
        #expect(replies == [row.reply])
        #expect(requestCount == 1)
    }

    /// Goal: only what stands under the identifier that was asked for says whether Apple holds our report, or
    /// line items of it: that may be an earlier one of ours.
    @Test(
        arguments: [
            (identifier, "NO_LINE_ITEM", true), (identifier.uppercased(), "NO_LINE_ITEM", true),
            (identifier, "DUPLICATE_TOKEN", false),
            ("5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e30", "NO_LINE_ITEM", nil),
            (nil, "NO_LINE_ITEM", nil),
        ] as [(String?, String, Bool?)]
    )
    func `tells our report from others`(found: String?, status: String, isOurs: Bool?) throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        defer { server.close() }
        let client = try Self.client(url: "http://127.0.0.1:\(server.port)")
        let sent = ReportRequestBody(
            requestIdentifier: Self.identifier,
            externalPurchaseID: TokenID("t"),
            status: .noLineItem
        )
        client.submit(
            AppleRequest(
                tag: 1,
                lane: Self.lane,
                action: .retrieveReport(requestIdentifier: Self.identifier, sent: sent)
            ),
            now: Self.now
        )
        let name = found.map { "\"requestIdentifier\":\"\($0)\"," } ?? ""
        let body = "{\"report\":{\(name)\"externalPurchaseId\":\"t\",\"status\":\"\(status)\"}}"
        var reply: AppleReply?
        while reply == nil {
            var descriptors = [server.wakeDescriptor, client.wakeDescriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            _ = unsafe poll(&descriptors, 2, 20)
            server.run()
            for request in server.takeRequests() {
                server.respond(to: request.id, status: 200, body: Array(body.utf8))
            }
            server.run()
            reply = client.collect(now: Self.now).first?.reply
        }
        #expect(reply?.isOurs == isOurs)
        #expect((reply?.lineItemsHeld == nil) == (isOurs == nil))
    }

    @Test func `knows when nothing was sent`() throws {
        let client = try Self.client(url: "http://127.0.0.1:1")
        client.submit(Self.request, now: Self.now)
        var replies: [AppleReply] = []
        while replies.isEmpty {
            var descriptor = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&descriptor, 1, 20)
            replies = client.collect(now: Self.now).map { Self.withoutSentence($0.reply) }
        }
        let failure = TransportFailure(.connect)
        #expect(replies == [AppleReply(transport: .notSent, failure: failure)])
    }

    /// The library's words differ by version.
    private static func withoutSentence(_ reply: AppleReply) -> AppleReply {
        var reply = reply
        reply.failure?.sentence = ""
        return reply
    }

    private static var request: AppleRequest {
        AppleRequest(
            tag: 7,
            lane: lane,
            action: .sendReport(
                ReportRequestBody(
                    requestIdentifier: identifier,
                    externalPurchaseID: TokenID("t"),
                    status: .noLineItem
                )
            )
        )
    }

    private static func client(url: String) throws -> AppStoreClient {
        let key = try P256PrivateKey.generate()
        return AppStoreClient(
            http: try HTTPClient(
                limits: HTTPClient.Limits(totalTimeoutMilliseconds: 500),
                userAgent: "test"
            ),
            hosts: AppStoreHosts(production: url, sandbox: url),
            loadSigners: { _ in
                [
                    AppStoreClient.Signer(
                        bundleID: "com.example",
                        issuerID: "i",
                        keyID: "k",
                        key: key
                    )
                ]
            }
        )
    }
}
