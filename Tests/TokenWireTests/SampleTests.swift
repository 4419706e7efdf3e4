import Foundation
import Testing
import TokenDomain
import TokenWire

/// What Apple published, as it really decodes: the JSON printed beside the third and the fourth
/// sample differs from what the strings hold.
@Suite struct `Apple's samples` {
    struct Sample: Decodable {
        var name: String
        var token: String?
        var url: String?
        var decoded: String
    }

    static func samples() throws -> [String: Sample] {
        let url = try #require(
            Bundle.module.url(
                forResource: "tokens",
                withExtension: "json",
                subdirectory: "Fixtures"
            )
        )
        let samples = try JSONDecoder().decode([Sample].self, from: Data(contentsOf: url))
        return Dictionary(uniqueKeysWithValues: samples.map { ($0.name, $0) })
    }

    static let zeros = "00000000-0000-0000-0000-000000000000"

    static let rows: [(String, String, TokenType?, Int64, Int64?)] = [
        ("plain", zeros, nil, 1_706_169_600_000, nil),
        ("services", zeros, .services, 1_750_896_000_000, 1_782_432_000_000),
        (
            "sandbox-printed-as-plain", "SANDBOX_" + zeros, .services, 1_706_169_600_000,
            1_706_173_200_000
        ),
        ("sandbox-services", "SANDBOX_" + zeros, .services, 1_730_448_720_000, 1_730_452_320_000),
        ("link", zeros, nil, 1_706_169_600_000, nil),
    ]

    @Test func `are five`() throws {
        #expect(try Self.samples().count == Self.rows.count)
    }

    @Test(arguments: rows)
    func `are read as what they hold`(
        name: String,
        id: String,
        type: TokenType?,
        creation: Int64,
        expiration: Int64?
    ) throws {
        let sample = try #require(try Self.samples()[name])
        let text: String
        if let url = sample.url {
            let link = try TokenLink(reading: Array(url.utf8).span)
            #expect(link.bundleID == "com.example")
            text = link.token
        } else {
            text = try #require(sample.token)
        }
        #expect(String(decoding: Reference(Array(text.utf8)).json, as: UTF8.self) == sample.decoded)
        let token = try decodeToken(Array(text.utf8).span)
        #expect(
            token
                == ExternalPurchaseToken(
                    externalPurchaseID: TokenID(id),
                    appAppleID: 1_234_567_890,
                    bundleID: "com.example",
                    tokenType: type,
                    tokenCreationDate: Timestamp(milliseconds: creation),
                    tokenExpirationDate: expiration.map { Timestamp(milliseconds: $0) }
                )
        )
        #expect(token.environment == (id.hasPrefix("SANDBOX") ? .sandbox : .production))
    }
}
