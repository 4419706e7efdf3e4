import Crypto

@testable import AppleSimulator

/// One app with a key at Apple, and a world that knows both.
struct SimulatedApp {
    static let start: UnixMilliseconds = 1_760_000_000_000
    static let day: Int64 = 86_400_000

    var bundleID = "com.example.app"
    var appAppleID: Int64 = 1_234_567_890
    let keyID = "ABC123DEFG"
    let issuerID = "57246542-96fe-1a63-e053-0824d011072a"
    let key: P256PrivateKey
    let world: AppleWorld

    init(_ change: (inout AppleWorld.Settings) -> Void = { _ in }) throws {
        var settings = AppleWorld.Settings()
        change(&settings)
        world = AppleWorld(settings: settings)
        world.clock.set(now: Self.start, rate: 1, real: Self.start)
        key = try P256PrivateKey.generate()
        try world.addKey(
            keyID: keyID,
            issuerID: issuerID,
            publicKeyPEM: key.publicKeyPEM,
            bundleIDs: [bundleID, "com.example.other"]
        )
    }

    // MARK: Tokens

    @discardableResult
    func issue(
        _ id: String,
        type: String? = nil,
        createdAt: UnixMilliseconds = start - day,
        expiresAt: UnixMilliseconds? = nil,
        customer: String? = nil
    ) -> String {
        world.register(
            IssuedToken(
                externalPurchaseID: id,
                appAppleID: appAppleID,
                bundleID: bundleID,
                tokenType: type,
                tokenCreationDate: createdAt,
                tokenExpirationDate: expiresAt,
                customer: customer
            )
        )
        return id
    }

    // MARK: Requests

    func authorization(
        _ claims: [String: JSONValue?] = [:],
        header: [String: JSONValue?] = [:],
        at seconds: Int64 = start / 1000,
        signedBy signer: P256PrivateKey? = nil
    ) -> String {
        let standardHeader: [String: JSONValue?] = [
            "alg": .string("ES256"), "kid": .string(keyID), "typ": .string("JWT"),
        ]
        let standardClaims: [String: JSONValue?] = [
            "iss": .string(issuerID), "iat": .integer(seconds), "exp": .integer(seconds + 300),
            "aud": .string("appstoreconnect-v1"), "bid": .string(bundleID),
        ]
        let parts = [
            standardHeader.merging(header) { $1 }, standardClaims.merging(claims) { $1 },
        ].map { members in
            let present = members.compactMap { name, value in value.map { JSONMember(name, $0) } }
            return Base64Text.url(JSONValue.object(present).bytes)
        }
        let text = parts.joined(separator: ".")
        let signature = (signer ?? key).sign(Array(text.utf8))
        return "Bearer \(text).\(Base64Text.url(signature))"
    }

    func request(
        _ method: String,
        _ path: String,
        _ body: String = "",
        in environment: StoreEnvironment = .production
    ) -> AppleRequest {
        AppleRequest(
            environment: environment,
            method: method,
            path: path,
            contentType: "application/json",
            authorization: authorization(),
            body: Array(body.utf8)
        )
    }

    func put(
        _ body: String,
        in environment: StoreEnvironment = .production,
        now: UnixMilliseconds = start
    ) -> AppleAnswer {
        world.put(Array(body.utf8), environment: environment, bundleID: bundleID, now: now)
    }

    /// Through the whole door, authorization and faults included.
    func exchange(
        _ body: String,
        in environment: StoreEnvironment = .production,
        real: UnixMilliseconds = start
    ) -> AppleReply {
        world.exchange(
            request("PUT", "/externalPurchase/v1/reports", body, in: environment),
            real: real
        )
    }
}

/// A report without line items, as JSON text.
func report(_ number: Int, _ token: String, _ status: String = "NO_LINE_ITEM") -> String {
    #"{"requestIdentifier":"\#(identifier(number))","externalPurchaseId":"\#(token)","#
        + #""status":"\#(status)"}"#
}

func identifier(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return "5b0c1a52-4f0e-4a55-9f1e-" + String(repeating: "0", count: 12 - digits.count) + digits
}

extension AppleAnswer {
    var json: JSONValue? {
        do { return try JSONValue(reading: body) } catch {
            return nil
        }
    }

    /// Each error as `code field lineItemId`, absent parts left out.
    var errors: [String]? {
        json?["errors"]?.elements?.map(\.errorSummary)
    }
}

extension JSONValue {
    var errorSummary: String {
        [
            self["errorCode"]?.integer.map(String.init), self["fieldName"]?.text,
            self["lineItemId"]?.text,
        ].compactMap { $0 }.joined(separator: " ")
    }
}
