package import Crypto
package import HTTPClient
package import TokenDomain

/// Apple itself, over HTTP.
package final class AppStoreClient: AppleClient {
    /// How requests of one app are signed.
    package struct Signer: Sendable {
        package var bundleID: String
        package var issuerID: String
        package var keyID: String
        package var key: P256PrivateKey
        /// Of the key in the app's list, from 1; those that cannot be read count too.
        package var number: Int

        package init(
            bundleID: String,
            issuerID: String,
            keyID: String,
            key: P256PrivateKey,
            number: Int = 1
        ) {
            self.bundleID = bundleID
            self.issuerID = issuerID
            self.keyID = keyID
            self.key = key
            self.number = number
        }
    }

    private struct Flight {
        var id: HTTPClientRequest.ID
        var lane: Lane
        /// Of the key that signed it.
        var keyID: String
        /// What a GET asks for, and what that is compared with: it may be an earlier report of ours, under
        /// whose identifier some of the line items stand.
        var asked: (identifier: String, sent: ReportRequestBody)?
        /// The report that a PUT sends.
        var sent: ReportRequestBody?
    }

    /// What a token says, and of whom it was made.
    private struct Unsigned {
        var bundleID: String
        var issuerID: String
        var keyID: String
        var issuedAt: Int64
        var bytes: [UInt8]
    }

    private let http: HTTPClient
    private let requests: AppStoreRequests
    private let keys: KeyRing
    private var flights: [UInt64: Flight] = [:]
    /// The last one of each app.
    private var unsigned: [Int64: Unsigned] = [:]
    /// Answered without being sent.
    private var unsent: [UInt64] = []
    private var unsentSince: Timestamp?

    /// Apple by this client.
    ///
    /// - Parameters:
    ///   - http: what sends.
    ///   - hosts: where Apple listens.
    ///   - keyChanged: a lane signs with another of its app's keys from now on.
    ///   - loadSigners: reads the keys of an app in the order in which they are tried; empty where
    ///     it has none that can be used.
    package init(
        http: HTTPClient,
        hosts: AppStoreHosts,
        keyChanged: @escaping (KeyRing.Change) -> Void = { _ in },
        loadSigners: @escaping (Int64) -> [Signer]
    ) {
        self.http = http
        keys = KeyRing(load: loadSigners, changed: keyChanged)
        requests = AppStoreRequests(hosts: hosts)
    }

    package var wakeDescriptor: Int32 { http.wakeDescriptor }
    package var nextAnswer: Timestamp? { unsentSince }

    package func submit(_ request: AppleRequest, now: Timestamp) {
        precondition(flights[request.tag] == nil, "a tag names one request")
        guard let signer = keys.signer(of: request.lane) else {
            unsent.append(request.tag)
            unsentSince = unsentSince ?? now
            return
        }
        // A fresh token for each request, as Apple asks: there is none to be stale.
        let webToken = JSONWebToken.signed(
            unsigned(request.lane.appAppleID, signer, now: now),
            by: signer.key
        )
        var ready = ready(request, webToken: webToken)
        ready.headers += request.trace.map { [("\(TraceParent.headerName)", $0.text)] } ?? []
        var asked: (identifier: String, sent: ReportRequestBody)?
        var sent: ReportRequestBody?
        switch request.action {
        case .sendReport(let body): sent = body
        case .retrieveReport(let identifier, let sent): asked = (identifier, sent)
        case .setAccountToken: break
        }
        flights[request.tag] = Flight(
            id: http.submit(ready),
            lane: request.lane,
            keyID: signer.keyID,
            asked: asked,
            sent: sent
        )
    }

    /// Header and claims, which are the same in tokens of one second; each is signed anew.
    private func unsigned(
        _ appAppleID: Int64,
        _ signer: Signer,
        now: Timestamp
    ) -> [UInt8] {
        let issuedAt = JSONWebToken.second(now)
        if let last = unsigned[appAppleID], last.issuedAt == issuedAt,
            last.keyID == signer.keyID, last.issuerID == signer.issuerID,
            last.bundleID == signer.bundleID
        {
            return last.bytes
        }
        let made = Unsigned(
            bundleID: signer.bundleID,
            issuerID: signer.issuerID,
            keyID: signer.keyID,
            issuedAt: issuedAt,
            bytes: JSONWebToken.unsigned(
                issuerID: signer.issuerID,
                keyID: signer.keyID,
                bundleID: signer.bundleID,
                issuedAt: issuedAt
            )
        )
        unsigned[appAppleID] = made
        return made.bytes
    }

    private func ready(_ request: AppleRequest, webToken: String) -> HTTPClientRequest {
        let environment = request.lane.environment
        return switch request.action {
        case .sendReport(let body):
            requests.sendReport(
                body,
                environment: environment,
                webToken: webToken,
                tag: request.tag
            )
        case .retrieveReport(let identifier, _):
            requests.retrieveReport(
                requestIdentifier: identifier,
                environment: environment,
                webToken: webToken,
                tag: request.tag
            )
        case .setAccountToken(let token, let transactionID):
            requests.setAccountToken(
                token,
                originalTransactionID: transactionID,
                environment: environment,
                webToken: webToken,
                tag: request.tag
            )
        }
    }

    package func collect(now: Timestamp) -> [(tag: UInt64, reply: AppleReply)] {
        http.run()
        var answers = unsent.map { (tag: $0, reply: AppleReply(transport: .noKey)) }
        unsent = []
        unsentSince = nil
        for response in http.takeResponses() {
            guard let flight = flights.removeValue(forKey: response.tag) else {
                continue
            }
            if case .answered(let answer) = response.outcome {
                keys.heard(
                    httpStatus: answer.status,
                    of: flight.lane,
                    signedWith: flight.keyID
                )
            }
            answers.append((response.tag, Self.reply(response.outcome, to: flight, now: now)))
        }
        return answers
    }

    package func abandon(tag: UInt64) {
        unsent.removeAll { $0 == tag }
        if let flight = flights.removeValue(forKey: tag) {
            http.cancel(flight.id)
        }
    }

    package func reloadKey(appAppleID: Int64) {
        keys.reload(appAppleID: appAppleID)
    }

    package func startWithFirstKey(appAppleID: Int64) {
        keys.startWithFirst(appAppleID: appAppleID)
    }

    private static func reply(
        _ outcome: HTTPClientResponse.Outcome,
        to flight: Flight,
        now: Timestamp
    ) -> AppleReply {
        switch outcome {
        case .failed(let failure):
            return AppleReply(
                transport: failure.kind == .notSent ? .notSent : .doubtful,
                failure: TransportFailure(failure)
            )
        case .answered(let answer):
            // A body cut at its limit is no JSON: what it holds is not known.
            let body = AppleBody(answer.isCut ? [] : answer.body)
            let held = flight.asked.flatMap { body.report(under: $0.identifier) }
            return AppleReply(
                transport: .answered(status: answer.status),
                isPage: AppleBody.isPage(answer.body),
                errors: body.errors?.map { flight.sent?.completed($0) ?? $0 },
                acknowledged: body.requestIdentifier,
                isOurs: flight.asked.flatMap { asked in held.map { asked.sent.isHeld(as: $0) } },
                lineItemsHeld: flight.asked.flatMap { asked in
                    held.map { asked.sent.lineItemsHeld(in: $0) }
                },
                retryAfter: retryAfter(answer, now: now)
            )
        }
    }

    /// What was accepted need not be tried again.
    private static func retryAfter(
        _ answer: HTTPClientResponse.Answer,
        now: Timestamp
    ) -> Timestamp? {
        guard answer.status >= 300 else {
            return nil
        }
        return answer.header("retry-after").flatMap { RetryAfter.read($0, now: now) }
    }
}

extension ReportRequestBody {
    /// Whether a report that Apple holds says what this one says: identifier, token, status and line
    /// items by meaning.
    package func isHeld(as report: JSONValue) -> Bool {
        ReportComparison.isSame(sent: json, held: report)
    }

    /// Which of the line items a report that Apple holds has, by the bytes of their ids, and
    /// whether as they stand here.
    package func lineItemsHeld(in report: JSONValue) -> [[UInt8]: Bool] {
        ReportComparison.itemsHeld(sent: json, held: report)
    }
}

extension TransportFailure {
    init(_ failure: HTTPClientResponse.Failure) {
        let kind: Kind =
            switch failure.code {
            case "http.resolve": .resolve
            case "http.connect": .connect
            case "http.tls": .tls
            case "http.tls_untrusted": .tlsUntrusted
            case "http.timeout": .timeout
            case "http.reset": .reset
            case "http.protocol": .http
            default: .other
            }
        self.init(kind, sentence: failure.message)
    }
}
