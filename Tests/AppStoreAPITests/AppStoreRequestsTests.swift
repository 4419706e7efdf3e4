import AppStoreAPI
import HTTPClient
import Testing
import TokenDomain

@Suite struct `Requests to Apple` {
    let requests = AppStoreRequests(
        hosts: AppStoreHosts(production: "https://a.example//", sandbox: "http://127.0.0.1:9501")
    )

    private func header(_ name: String, of request: HTTPClientRequest) -> [String] {
        request.headers.filter { $0.0 == name }.map(\.1)
    }

    @Test func `send a report`() {
        let body = ReportRequestBody(
            requestIdentifier: "r",
            externalPurchaseID: TokenID("a"),
            status: .duplicateToken
        )
        let request = requests.sendReport(body, environment: .production, webToken: "j.w.t", tag: 7)
        #expect(request.method == "PUT")
        #expect(request.url == "https://a.example/externalPurchase/v1/reports")
        #expect(request.body == body.bytes)
        #expect(request.tag == 7)
        #expect(header("Authorization", of: request) == ["Bearer j.w.t"])
        #expect(header("Content-Type", of: request) == ["application/json"])
        #expect(header("Accept", of: request) == ["application/json"])
    }

    @Test func `retrieve a report`() {
        let request = requests.retrieveReport(
            requestIdentifier: "5b0c-1",
            environment: .sandbox,
            webToken: "t",
            tag: 8
        )
        #expect(request.method == "GET")
        #expect(request.url == "http://127.0.0.1:9501/externalPurchase/v1/reports/5b0c-1")
        #expect(request.body.isEmpty)
        #expect(header("Content-Type", of: request).isEmpty)
    }

    @Test func `ask for the notifications of a span of time`() {
        var query = NotificationHistoryQuery(
            startDate: Timestamp(milliseconds: 1),
            endDate: Timestamp(milliseconds: 2),
            onlyFailures: false
        )
        func ask() -> HTTPClientRequest {
            requests.notificationHistory(
                query,
                environment: .sandbox,
                webToken: "t",
                tag: 8
            )
        }
        #expect(ask().method == "POST")
        #expect(ask().url == "http://127.0.0.1:9501/inApps/v1/notifications/history")
        #expect(String(decoding: ask().body, as: UTF8.self) == #"{"startDate":1,"endDate":2}"#)
        query.onlyFailures = true
        query.paginationToken = "a=&b"
        #expect(ask().url.hasSuffix("/history?paginationToken=a%3D%26b"))
        #expect(
            String(decoding: ask().body, as: UTF8.self)
                == #"{"startDate":1,"endDate":2,"onlyFailures":true}"#
        )
    }

    @Test(
        arguments: [
            (#"{"notificationHistory":[],"hasMore":false}"#, [], nil),
            (
                #"{"notificationHistory":[{"signedPayload":"a"},{"signedPayload":"b"}],"hasMore":true,"paginationToken":"n"}"#,
                ["a", "b"], "n"
            ),
            // A token without more is the place after the end.
            (#"{"notificationHistory":[{"signedPayload":"a"}],"paginationToken":"n"}"#, ["a"], nil),
            (#"{"hasMore":false}"#, [], nil),
        ] as [(String, [String], String?)]
    )
    func `are answered by a page`(body: String, payloads: [String], next: String?) throws {
        let page = try #require(NotificationHistoryPage(Array(body.utf8)))
        #expect(page.signedPayloads == payloads)
        #expect(page.nextPaginationToken == next)
    }

    @Test(arguments: [
        "", "[]", #"{"notificationHistory":[{}]}"#,
        #"{"notificationHistory":[],"hasMore":true}"#,
        #"{"notificationHistory":[],"hasMore":true,"paginationToken":""}"#,
        // A proxy's, or an error: no word about the pages that follow.
        "{}", #"{"message":"x"}"#, #"{"paginationToken":"n"}"#,
        #"{"notificationHistory":{}}"#, #"{"notificationHistory":null}"#,
        #"{"notificationHistory":[],"hasMore":"true"}"#,
    ])
    func `are answered by no page that would skip something`(body: String) {
        #expect(NotificationHistoryPage(Array(body.utf8)) == nil)
    }

    @Test(arguments: [
        ("2000000123", "2000000123"), ("a/b?c#d%", "a%2Fb%3Fc%23d%25"), ("..", "%2E%2E"),
        (".", "%2E"), ("a.b", "a.b"), ("é ", "%C3%A9%20"), ("a\r\nb", "a%0D%0Ab"),
    ])
    func `set an account token, whatever the transaction is called`(id: String, path: String) {
        let request = requests.setAccountToken(
            "7E3FB2B5-2F4B-4B3C-9F5E-1B2C3D4E5F60",
            originalTransactionID: id,
            environment: .production,
            webToken: "t",
            tag: 9
        )
        #expect(request.method == "PUT")
        #expect(
            request.url
                == "https://a.example/inApps/v1/transactions/\(path)/appAccountToken"
        )
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"appAccountToken":"7e3fb2b5-2f4b-4b3c-9f5e-1b2c3d4e5f60"}"#
        )
    }

    @Test func `go to Apple's own hosts by default`() {
        let hosts = AppStoreHosts()
        #expect(hosts[.production] == "https://api.storekit.apple.com")
        #expect(hosts[.sandbox] == "https://api.storekit-sandbox.apple.com")
    }
}
