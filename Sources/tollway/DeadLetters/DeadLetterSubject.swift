internal import AppStoreAPI
internal import Kafka
internal import TokenDomain
internal import TokenWire

/// What a dead letter is about, as far as its value can be read; a claim and no proof.
struct DeadLetterSubject {
    var appAppleID: Int64?
    var bundleID: String?
    var environment: AppleEnvironment?
    var externalPurchaseID: String?
    var tokenCreationDate: Int64?
    var tokenExpirationDate: Int64?
    /// Of a `reports.requested.v1` record.
    var status: ReportStatus?
    var requestIdentifier: String?
    /// The `requestIdentifier` before a patch, where that changes it.
    var failedIdentifier: String?
    /// Of what the line items of a `reports.requested.v1` record say; 0 without any.
    var contentHash: UInt64 = 0
    /// Of a report that Apple refused: until when it wants it.
    var reportDeadline: Int64?
    /// Of an `account-tokens.requested.v1` record.
    var appAccountToken: String?
    var originalTransactionID: String?
    var requestedAt: Int64?
    /// Of a `purchases.received.v1` record.
    var saleKind: PurchaseEvent.Kind?
    var lineItemID: String?
    var receivedAt: Int64?

    /// Until when Apple wants its report; nil where its dates are not known.
    func deadline(days: Int) -> Timestamp? {
        if let reportDeadline {
            return Timestamp(milliseconds: reportDeadline)
        }
        if let tokenExpirationDate {
            return Timestamp(milliseconds: tokenExpirationDate) + ReportPolicy.deadlineAfterExpiry
        }
        return tokenCreationDate.map { Timestamp(milliseconds: $0) + .days(Int64(days)) }
    }

    /// The topic that takes such a value, where that is not the one it was read from: a debt that
    /// Apple refused is in the dead letters as a report asked for by hand.
    var requestTopic: Topic? {
        if status != nil {
            .reportsRequested
        } else {
            appAccountToken == nil ? nil : .accountTokensRequested
        }
    }
}

/// Reads values of every topic that has dead letters, for what they are about.
final class SubjectReader {
    /// What a value carries in a form of its own, whether it is a sale, and what it states.
    private struct Parts {
        var token: [UInt8] = []
        var signedPayload: [UInt8] = []
        var signedTransaction: [UInt8] = []
        var isSale = false
        /// In any form; null states none.
        var statesEnvironment = false
        /// Read to its end.
        var isWhole = false
    }

    private var tokens = TokenReader()

    /// What can be read; a value in no form of ours gives an empty subject.
    func read(_ value: Span<UInt8>) -> DeadLetterSubject {
        var subject = DeadLetterSubject()
        var parts = Parts()
        do throws(WireFault) {
            try JSONScanner.scan(value) { (scanner) throws(WireFault) in
                try Self.scanMembers(&scanner, &subject, &parts)
            }
            parts.isWhole = true
        } catch {
            // It lies here because something is wrong with it; what was read before that counts.
        }
        if !parts.token.isEmpty {
            readToken(parts.token.span, into: &subject)
        }
        if !parts.signedPayload.isEmpty {
            Self.readPayload(parts.signedPayload, into: &subject)
        }
        if !parts.signedTransaction.isEmpty {
            Self.readTransaction(parts.signedTransaction, into: &subject)
        }
        let environment = subject.externalPurchaseID.map { TokenID($0).environment }
        if parts.isSale {
            // As purchases reads it. What states one that cannot be read may be of either.
            if parts.isWhole, !parts.statesEnvironment {
                subject.environment = subject.environment ?? environment ?? .production
            }
        } else {
            subject.environment = environment ?? subject.environment
        }
        return subject
    }

    /// What a token says stands above what lies beside it, which decode ignores.
    private func readToken(_ text: Span<UInt8>, into subject: inout DeadLetterSubject) {
        do throws(DecodeFault) {
            try tokens.read(text)
            // It may have none.
            subject.tokenExpirationDate = nil
        } catch {
            // Refused for a part of it: the rest says whose it is, as in decode's `seen` record.
        }
        let token = tokens.known
        subject.externalPurchaseID = token.externalPurchaseID ?? subject.externalPurchaseID
        subject.appAppleID = token.appAppleID ?? subject.appAppleID
        subject.bundleID = token.bundleID ?? subject.bundleID
        subject.tokenCreationDate = token.tokenCreationDate ?? subject.tokenCreationDate
        subject.tokenExpirationDate = token.tokenExpirationDate ?? subject.tokenExpirationDate
    }

    /// A notification's app and token, or those of its transaction.
    private static func readPayload(_ jws: [UInt8], into subject: inout DeadLetterSubject) {
        scanPayload(jws) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseToken", "data", "summary", "appData":
                var inner = Parts()
                try scanMembers(&scanner, &subject, &inner)
            default: try scanner.skip()
            }
        }
    }

    /// A transaction's app and environment, for filters.
    ///
    /// Its id decides whether a request goes back: it is not taken from what nobody has verified.
    private static func readTransaction(_ jws: [UInt8], into subject: inout DeadLetterSubject) {
        scanPayload(jws) { (key, scanner) throws(WireFault) in
            switch (key, try scanner.peekKind()) {
            case ("bundleId", .string): subject.bundleID = try scanner.string()
            case ("environment", .string):
                subject.environment = environment(try scanner.string())
            default: try scanner.skip()
            }
        }
    }

    /// The members of the middle part of a JWS, unverified.
    private static func scanPayload(
        _ jws: [UInt8],
        _ member: (JSONKey, inout JSONScanner) throws(WireFault) -> Void
    ) {
        let parts = jws.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3 else {
            return
        }
        do {
            let middle = Array(parts[1])
            let payload = try Base64URL.decodeStrict(middle.span)
            try JSONScanner.scanObject(payload.span, member)
        } catch {
            // As above: what was read before counts.
        }
    }

    /// Apple writes `Sandbox`, we write `sandbox`.
    private static func environment(_ text: String) -> AppleEnvironment? {
        AppleEnvironment(rawValue: text.lowercased())
    }

    private static func scanMembers(
        _ scanner: inout JSONScanner,
        _ subject: inout DeadLetterSubject,
        _ parts: inout Parts
    ) throws(WireFault) {
        guard try scanner.peekKind() == .object else {
            return try scanner.skip()
        }
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch (key, try scanner.peekKind()) {
            case ("token", .string): parts.token = try scanner.stringBytes()
            case ("signedPayload", .string): parts.signedPayload = try scanner.stringBytes()
            case ("lineItemId", .string):
                parts.isSale = true
                subject.lineItemID = try scanner.string()
            case ("type", .string):
                subject.saleKind = PurchaseEvent.Kind(rawValue: try scanner.string())
            case ("receivedAt", .number): subject.receivedAt = try scanner.integerIfAny()
            case ("externalPurchaseId", .string):
                subject.externalPurchaseID = try scanner.string()
            case ("bundleId", .string): subject.bundleID = try scanner.string()
            case ("environment", .string):
                parts.statesEnvironment = true
                subject.environment = environment(try scanner.string())
            case ("environment", let kind):
                parts.statesEnvironment = parts.statesEnvironment || kind != .null
                try scanner.skip()
            case ("appAppleId", .number): subject.appAppleID = try scanner.integerIfAny()
            case ("tokenCreationDate", .number):
                subject.tokenCreationDate = try scanner.integerIfAny()
            case ("tokenExpirationDate", .number):
                subject.tokenExpirationDate = try scanner.integerIfAny()
            case ("status", .string): subject.status = ReportStatus(rawValue: try scanner.string())
            case ("deadline", .number): subject.reportDeadline = try scanner.integerIfAny()
            case ("requestIdentifier", .string):
                subject.requestIdentifier = try scanner.string()
            case ("lineItems", .array):
                subject.contentHash = ReportPolicy.lineItemsHash(
                    String(decoding: try scanner.raw(), as: UTF8.self)
                )
            case ("appAccountToken", .string): subject.appAccountToken = try scanner.string()
            case ("originalTransactionId", .string):
                subject.originalTransactionID = try scanner.string()
            case ("requestedAt", .number): subject.requestedAt = try scanner.integerIfAny()
            case ("signedTransaction", .string):
                parts.signedTransaction = try scanner.stringBytes()
            default: try scanner.skip()
            }
        }
    }
}
