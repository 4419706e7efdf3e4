import TokenDomain
import TokenWire

/// What the topics of an account have of a token of app 1, all at one time.
struct AccountRecords {
    let now: Timestamp

    func token(_ id: String) -> ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: TokenID(id),
            appAppleID: 1,
            bundleID: "b",
            tokenType: nil,
            tokenCreationDate: now,
            tokenExpirationDate: nil
        )
    }

    /// Without id what came in is no token.
    func received(_ id: String) -> TokenReceived {
        let json =
            #"{"appAppleId":1,"bundleId":"b","externalPurchaseId":"\#(id)","#
            + #""tokenCreationDate":\#(now.milliseconds)}"#
        var text: [UInt8] = []
        Base64URL.encode(json.utf8.span, to: &text)
        return TokenReceived(
            token: id.isEmpty ? "no token" : String(decoding: text, as: UTF8.self),
            customer: nil,
            receivedAt: now,
            source: .app,
            bundleID: nil,
            requestID: "r"
        )
    }

    func decoded(_ id: String) -> TokenDecoded {
        TokenDecoded(token: token(id), customer: nil, receivedAt: now, text: "x")
    }

    func distinct(_ id: String, _ role: TokenRole = .primary) -> TokenDistinct {
        TokenDistinct(
            externalPurchaseID: TokenID(id),
            appAppleID: 1,
            bundleID: "b",
            tokenType: nil,
            tokenCreationDate: now,
            tokenExpirationDate: nil,
            customer: nil,
            receivedAt: now,
            role: role
        )
    }
}
