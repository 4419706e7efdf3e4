internal import Foundation

/// A token as Apple would mint it, for the generator: fields in, text out.
struct DemoToken {
    var externalPurchaseID: String
    var appAppleID: Int64
    var bundleID: String
    var tokenType: String?
    var created: Int64
    var expires: Int64?
    /// Whose it is: Apple's side knows that of every token, and the token does not say it.
    var customer: String?

    /// How the text is laid out: Apple's own samples differ in all of it.
    struct Form {
        var isPretty: Bool
        var hasTrailingLineFeed: Bool
        var isPadded: Bool
        var usesStandardAlphabet: Bool
    }

    /// The fields as JSON, in the order of Apple's samples.
    func json(_ form: Form) -> String {
        let (open, separator, close) = form.isPretty ? ("{\n\t", ",\n\t", "\n}") : ("{", ",", "}")
        var members = [
            "\"appAppleId\":\(appAppleID)",
            "\"bundleId\":\"\(bundleID)\"",
            "\"tokenCreationDate\":\(created)",
            "\"externalPurchaseId\":\"\(externalPurchaseID)\"",
        ]
        if let tokenType {
            members.append("\"tokenType\":\"\(tokenType)\"")
        }
        if let expires {
            members.append("\"tokenExpirationDate\":\(expires)")
        }
        return open + members.joined(separator: separator) + close
            + (form.hasTrailingLineFeed ? "\n" : "")
    }

    func text(_ form: Form) -> String {
        Self.base64(json(form), form)
    }

    static func base64(_ json: String, _ form: Form) -> String {
        var text = Data(json.utf8).base64EncodedString()
        if !form.usesStandardAlphabet {
            text = text.replacingOccurrences(of: "+", with: "-")
                .replacingOccurrences(of: "/", with: "_")
        }
        return form.isPadded ? text : text.replacingOccurrences(of: "=", with: "")
    }

    /// The token for the simulator's books.
    var registration: [String: Any] {
        var fields: [String: Any] = [
            "externalPurchaseId": externalPurchaseID,
            "appAppleId": appAppleID,
            "bundleId": bundleID,
            "tokenCreationDate": created,
        ]
        fields["tokenType"] = tokenType
        fields["tokenExpirationDate"] = expires
        fields["customer"] = customer
        return fields
    }
}

/// The token strings that Apple prints on *Receiving and decoding external purchase tokens*, and
/// the link of *SKExternalPurchaseMultiLink*.
///
/// They hold two ids: all zeros, with and without `SANDBOX_`.
enum PublishedSamples {
    static let productionID = "00000000-0000-0000-0000-000000000000"
    static let sandboxID = "SANDBOX_00000000-0000-0000-0000-000000000000"
    static let appAppleID: Int64 = 1_234_567_890
    static let bundleID = "com.example"

    static let plain =
        "ewoJImFwcEFwcGxlSWQiOjEyMzQ1Njc4OTAsCgkiYnVuZGxlSWQiOiJjb20uZXhhbXBsZSIsCgkidG9rZW5DcmVh"
        + "dGlvbkRhdGUiOjE3MDYxNjk2MDAwMDAsCgkiZXh0ZXJuYWxQdXJjaGFzZUlkIjoiMDAwMDAwMDAtMDAwMC0wMDAw"
        + "LTAwMDAtMDAwMDAwMDAwMDAwIgp9"
    static let services =
        "eyJhcHBBcHBsZUlkIjoxMjM0NTY3ODkwLCJidW5kbGVJZCI6ImNvbS5leGFtcGxlIiwidG9rZW5DcmVhdGlvbkRh"
        + "dGUiOjE3NTA4OTYwMDAwMDAsImV4dGVybmFsUHVyY2hhc2VJZCI6IjAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAw"
        + "MDAwMDAwMDAwMCIsInRva2VuVHlwZSI6IlNFUlZJQ0VTIiwidG9rZW5FeHBpcmF0aW9uRGF0ZSI6MTc4MjQzMjAw"
        + "MDAwMH0K"
    static let sandboxPrintedAsPlain =
        "eyJhcHBBcHBsZUlkIjoxMjM0NTY3ODkwLCJidW5kbGVJZCI6ImNvbS5leGFtcGxlIiwidG9rZW5DcmVhdGlvbkRh"
        + "dGUiOjE3MDYxNjk2MDAwMDAsImV4dGVybmFsUHVyY2hhc2VJZCI6IlNBTkRCT1hfMDAwMDAwMDAtMDAwMC0wMDAw"
        + "LTAwMDAtMDAwMDAwMDAwMDAwIiwidG9rZW5UeXBlIjoiU0VSVklDRVMiLCJ0b2tlbkV4cGlyYXRpb25EYXRlIjox"
        + "NzA2MTczMjAwMDAwfQo="
    static let sandboxServices =
        "eyJhcHBBcHBsZUlkIjoxMjM0NTY3ODkwLCJidW5kbGVJZCI6ImNvbS5leGFtcGxlIiwidG9rZW5DcmVhdGlvbkRh"
        + "dGUiOjE3MzA0NDg3MjAwMDAsImV4dGVybmFsUHVyY2hhc2VJZCI6IlNBTkRCT1hfMDAwMDAwMDAtMDAwMC0wMDAw"
        + "LTAwMDAtMDAwMDAwMDAwMDAwIiwidG9rZW5UeXBlIjoiU0VSVklDRVMiLCJ0b2tlbkV4cGlyYXRpb25EYXRlIjox"
        + "NzMwNDUyMzIwMDAwfQ=="
    static let link =
        "https://www.example.com?externalPurchaseToken=\(plain)&bundleId=com.example"
}
