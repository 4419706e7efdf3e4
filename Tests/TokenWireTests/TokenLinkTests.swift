import Testing
import TokenDomain
import TokenWire

@Suite struct `A link with a token` {
    @Test(arguments: [
        ("https://a.b?externalPurchaseToken=eyJ9&bundleId=com.app", "eyJ9", "com.app"),
        ("HTTP://a.b/c?bundleId=com.app&externalPurchaseToken=eyJ9", "eyJ9", "com.app"),
        (" https://a.b?x=1&externalPurchaseToken=eyJ9==&y&&=z\n", "eyJ9==", nil),
        ("https://a.b?externalPurchaseToken=ey%4A9%3d%3D#externalPurchaseToken=z", "eyJ9==", nil),
        ("https://a.b?externalPurchaseToken=a+b c&bundleId=", "a+b c", ""),
        ("https://a.b?ExternalPurchaseToken=x&externalPurchaseToken=eyJ9", "eyJ9", nil),
        ("https://a.b?x=%zz&externalPurchaseToken=eyJ9", "eyJ9", nil),
    ])
    func `gives both parameters`(url: String, token: String, bundleID: String?) throws {
        let link = try TokenLink(reading: Array(url.utf8).span)
        #expect(link.token == token)
        #expect(link.bundleID == bundleID)
    }

    @Test(arguments: [
        ("ftp://a.b?externalPurchaseToken=eyJ9", "decode.bad_envelope"),
        ("eyJ9", "decode.bad_envelope"),
        ("", "decode.bad_envelope"),
        ("https:/a.b?externalPurchaseToken=eyJ9", "decode.bad_envelope"),
        ("https://a.b?externalPurchaseToken=a&externalPurchaseToken=a", "decode.bad_envelope"),
        ("https://a.b?externalPurchaseToken=a&bundleId=b&bundleId=b", "decode.bad_envelope"),
        ("https://a.b?externalPurchaseToken=a%4", "decode.bad_envelope"),
        ("https://a.b?externalPurchaseToken=a%4g", "decode.bad_envelope"),
        ("https://a.b", "decode.empty"),
        ("https://a.b?", "decode.empty"),
        ("https://a.b?externalPurchaseToken", "decode.empty"),
        ("https://a.b?externalPurchaseToken=", "decode.empty"),
        ("https://a.b?externalPurchaseToken=%20", "decode.empty"),
        ("https://a.b?externalpurchasetoken=a", "decode.empty"),
        ("https://a.b#?externalPurchaseToken=a", "decode.empty"),
    ])
    func `is refused`(url: String, code: String) {
        let fault = #expect(throws: DecodeFault.self) {
            try TokenLink(reading: Array(url.utf8).span)
        }
        #expect(fault?.code == code)
    }
}
