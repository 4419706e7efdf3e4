internal import Crypto
package import TokenDomain

extension ReportPolicy {
    /// As ``requestIdentifier`` wants it: UUID v5 of an intent's name, in our name space.
    package static let identifier: @Sendable (TokenID, Int) -> String = { id, number in
        UUIDText.v5(namespace: nameSpaceBytes, name: intentName(of: id, number: number))
    }

    /// As ``contentHash`` wants it: the order of line items and of their members, and the spelling of
    /// numbers, are nothing.
    package static let lineItemsHash: @Sendable (String) -> UInt64 = { lineItems in
        ReportComparison.hash(ofLineItems: lineItems)
    }

    private static let nameSpaceBytes: [UInt8] = {
        guard let bytes = UUIDText.bytes(of: nameSpace) else {
            preconditionFailure("the name space is a UUID")
        }
        return bytes
    }()
}
