internal import Crypto
internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Makes the record of `account-tokens.requested` from the body of `POST /v1/account-tokens`.
struct AccountTokenBody {
    let receivedAt: Timestamp
    let requestID: String

    func append(_ body: [UInt8], to outputs: inout OutputBatch) throws(Problem) {
        let request: AccountTokenRequested
        do throws(WireFault) {
            request = try read(body)
        } catch {
            throw Problem(error)
        }
        guard UUIDText.bytes(of: request.appAccountToken) != nil else {
            throw Problem(
                status: 400,
                code: "ingest.not_a_uuid",
                detail: "The field \"appAccountToken\" is no UUID."
            )
        }
        // All requests for one transaction must be in one partition: the newest wins there.
        var keyText: String?
        switch request.subject {
        case .signedTransaction(let text):
            try SignedText.check(text, field: "signedTransaction")
            keyText = SignedText.claim("originalTransactionId", of: text)
        case .original(let transactionID, let bundleID, _):
            try checkIdentifier(transactionID, field: "originalTransactionId")
            try checkIdentifier(bundleID, field: "bundleId")
            keyText = transactionID
        }
        let key = keyText.map { outputs.place($0.utf8) } ?? .absent
        let start = outputs.arena.count
        request.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: Route.accountTokens.topic,
                timestampMilliseconds: receivedAt.milliseconds,
                key: key,
                value: outputs.placed(from: start)
            )
        )
    }

    private func read(_ body: [UInt8]) throws(WireFault) -> AccountTokenRequested {
        var appAccountToken: String?
        var signedTransaction: String?
        var originalTransactionID: String?
        var bundleID: String?
        var environment: AppleEnvironment?
        try JSONScanner.scanObject(body.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "appAccountToken": try scanner.fill(&appAccountToken)
            case "signedTransaction": try scanner.fill(&signedTransaction)
            case "originalTransactionId": try scanner.fill(&originalTransactionID)
            case "bundleId": try scanner.fill(&bundleID)
            case "environment": try scanner.fill(&environment)
            default: try scanner.skip()
            }
        }
        let subject: AccountTokenRequested.Subject
        if let signedTransaction {
            // It proves what the others only say.
            subject = .signedTransaction(signedTransaction)
        } else {
            subject = .original(
                transactionID: try JSONScanner.require(
                    originalTransactionID,
                    "originalTransactionId"
                ),
                bundleID: try JSONScanner.require(bundleID, "bundleId"),
                environment: try JSONScanner.require(environment, "environment")
            )
        }
        return AccountTokenRequested(
            appAccountToken: try JSONScanner.require(appAccountToken, "appAccountToken"),
            subject: subject,
            requestedAt: receivedAt,
            requestID: requestID
        )
    }

    private func checkIdentifier(_ text: String, field: String) throws(Problem) {
        guard (1...IngestLimits.identifierByteCountMax).contains(text.utf8.count) else {
            throw Problem(.outOfRange(field: field))
        }
    }
}
