internal import Crypto
internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Apple's notifications about the bench's tokens, signed by a chain of the bench's own.
struct BenchNotices {
    private let authority: TestCertificateAuthority
    private let head: String
    private let tokens: BenchTokens
    private let now: Int64

    /// `now` is in UNIX milliseconds.
    init(now: Int64, tokens: BenchTokens) throws {
        let seconds = now / 1_000
        authority = try TestCertificateAuthority(
            validSeconds: (seconds - 86_400)...(seconds + 86_400)
        )
        let chain = [authority.leaf, authority.intermediate, authority.root]
            .map { "\"\(Self.standardBase64($0.certificate.der))\"" }
            .joined(separator: ",")
        head = Self.encoded("{\"alg\":\"ES256\",\"x5c\":[\(chain)]}")
        self.tokens = tokens
        self.now = now
    }

    /// What a worker has to trust, in PEM.
    var roots: [UInt8] { authority.rootPEM }

    /// Appends the record of `notifications.received` about the token with a number.
    func append(_ number: Int, to outputs: inout OutputBatch) {
        let app = tokens.app(of: number)
        let payload = Self.encoded(
            "{\"notificationType\":\"EXTERNAL_PURCHASE_TOKEN\",\"subtype\":\"UNREPORTED\","
                + "\"notificationUUID\":\"\(tokens.id(number, salt: 2))\",\"signedDate\":\(now),"
                + "\"version\":\"2.0\",\"externalPurchaseToken\":{\"externalPurchaseId\":"
                + "\"\(tokens.id(number))\",\"tokenCreationDate\":\(now),"
                + "\"appAppleId\":\(app.appAppleID),\"bundleId\":\"\(app.bundleID)\"}}"
        )
        let signed = head + "." + payload
        let signature = authority.leaf.sign(Array(signed.utf8))
        let start = outputs.arena.count
        NotificationReceived(
            signedPayload: signed + "." + Base64URL.encode(signature.span),
            receivedAt: Timestamp(milliseconds: now)
        ).write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: .absent, value: outputs.placed(from: start))
        )
    }

    private static func encoded(_ text: String) -> String {
        let bytes = Array(text.utf8)
        return Base64URL.encode(bytes.span)
    }

    /// With padding, as `x5c` has it.
    private static func standardBase64(_ bytes: [UInt8]) -> String {
        let text = Base64URL.encode(bytes.span)
            .replacing("-", with: "+")
            .replacing("_", with: "/")
        return text + String(repeating: "=", count: (4 - text.count % 4) % 4)
    }
}
