import Crypto
import Foundation
import Testing
import TokenDomain
import TokenWire

/// `customer-id.json`, by which a platform checks its own code.
@Suite struct `The test vectors of customers` {
    private struct File: Decodable {
        struct Vector: Decodable {
            var keyHex: String
            var customer: String
            var expected: String
        }

        var vectors: [Vector]
    }

    @Test func `are what our own code makes of them`() throws {
        let url = `The schemas of Protocols`.protocols.appending(path: "customer-id.json")
        let file = try JSONDecoder().decode(File.self, from: Data(contentsOf: url))
        #expect(file.vectors.count == 4)
        for vector in file.vectors {
            let digits = Array(vector.keyHex)
            let key = try stride(from: 0, to: digits.count, by: 2).map { index in
                try #require(UInt8(String(digits[index...index + 1]), radix: 16))
            }
            let code = HMACSHA256(key: key).code(for: Array(vector.customer.utf8))
            #expect("c1." + Base64URL.encode(code.span) == vector.expected)
            let isWellFormed = CustomerID.isWellFormed(Array(vector.expected.utf8).span)
            #expect(isWellFormed)
        }
    }
}
