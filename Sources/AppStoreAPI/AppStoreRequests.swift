package import HTTPClient
package import TokenDomain
internal import TokenWire

/// Where Apple listens.
package struct AppStoreHosts: Equatable, Sendable {
    /// Absolute, without a slash at the end.
    package var production: String
    package var sandbox: String

    /// Hosts as configured; slashes at their ends are taken away.
    package init(
        production: String = "https://api.storekit.apple.com",
        sandbox: String = "https://api.storekit-sandbox.apple.com"
    ) {
        self.production = Self.trimmed(production)
        self.sandbox = Self.trimmed(sandbox)
    }

    package subscript(environment: AppleEnvironment) -> String {
        switch environment {
        case .production: production
        case .sandbox: sandbox
        }
    }

    private static func trimmed(_ url: String) -> String {
        String(
            decoding: url.utf8.reversed().drop { $0 == UInt8(ascii: "/") }.reversed(),
            as: UTF8.self
        )
    }
}

/// The requests that we make of Apple, ready to be submitted.
package struct AppStoreRequests: Sendable {
    private let hosts: AppStoreHosts

    package init(hosts: AppStoreHosts) {
        self.hosts = hosts
    }

    /// Send External Purchase Report.
    ///
    /// - Parameters:
    ///   - body: the frozen report.
    ///   - environment: the token's.
    ///   - webToken: a JSON Web Token of the app.
    ///   - tag: comes back with the response.
    /// - Returns: the request.
    package func sendReport(
        _ body: ReportRequestBody,
        environment: AppleEnvironment,
        webToken: String,
        tag: UInt64
    ) -> HTTPClientRequest {
        request("PUT", reportsPath, environment, webToken, body: body.bytes, tag: tag)
    }

    /// Retrieve External Purchase Report.
    package func retrieveReport(
        requestIdentifier: String,
        environment: AppleEnvironment,
        webToken: String,
        tag: UInt64
    ) -> HTTPClientRequest {
        let path = "\(reportsPath)/\(escaped(requestIdentifier))"
        return request("GET", path, environment, webToken, body: [], tag: tag)
    }

    /// Set App Account Token.
    ///
    /// - Parameters:
    ///   - appAccountToken: a UUID; goes out in lower case.
    ///   - originalTransactionID: as Apple wrote it.
    ///   - environment: the transaction's.
    ///   - webToken: a JSON Web Token of the app.
    ///   - tag: comes back with the response.
    /// - Returns: the request.
    package func setAccountToken(
        _ appAccountToken: String,
        originalTransactionID: String,
        environment: AppleEnvironment,
        webToken: String,
        tag: UInt64
    ) -> HTTPClientRequest {
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("appAccountToken", appAccountToken.lowercased())
        writer.endObject()
        let path = "/inApps/v1/transactions/\(escaped(originalTransactionID))/appAccountToken"
        return request("PUT", path, environment, webToken, body: writer.bytes, tag: tag)
    }

    /// Get Notification History: one page.
    ///
    /// - Parameters:
    ///   - query: which notifications, and which page of them.
    ///   - environment: whose history.
    ///   - webToken: a JSON Web Token of the app.
    ///   - tag: comes back with the response.
    /// - Returns: the request.
    package func notificationHistory(
        _ query: NotificationHistoryQuery,
        environment: AppleEnvironment,
        webToken: String,
        tag: UInt64
    ) -> HTTPClientRequest {
        var path = "/inApps/v1/notifications/history"
        if let token = query.paginationToken {
            path += "?paginationToken=\(escaped(token))"
        }
        return request("POST", path, environment, webToken, body: query.body, tag: tag)
    }

    /// Request a Test Notification.
    package func requestTestNotification(
        environment: AppleEnvironment,
        webToken: String,
        tag: UInt64
    ) -> HTTPClientRequest {
        request("POST", "/inApps/v1/notifications/test", environment, webToken, body: [], tag: tag)
    }

    /// Get Test Notification Status.
    package func testNotificationStatus(
        _ testNotificationToken: String,
        environment: AppleEnvironment,
        webToken: String,
        tag: UInt64
    ) -> HTTPClientRequest {
        let path = "/inApps/v1/notifications/test/\(escaped(testNotificationToken))"
        return request("GET", path, environment, webToken, body: [], tag: tag)
    }

    private let reportsPath = "/externalPurchase/v1/reports"

    private func request(
        _ method: String,
        _ path: String,
        _ environment: AppleEnvironment,
        _ webToken: String,
        body: [UInt8],
        tag: UInt64
    ) -> HTTPClientRequest {
        var headers = [("Authorization", "Bearer \(webToken)"), ("Accept", "application/json")]
        if !body.isEmpty {
            headers.append(("Content-Type", "application/json"))
        }
        return HTTPClientRequest(
            method: method,
            url: hosts[environment] + path,
            headers: headers,
            body: body,
            tag: tag
        )
    }

    /// A path segment: whatever is not unreserved (RFC 3986, 2.3) as `%XX`.
    private func escaped(_ segment: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in segment.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                bytes.append(byte)
            case UInt8(ascii: ".") where segment != "." && segment != "..":
                bytes.append(byte)
            default:
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
