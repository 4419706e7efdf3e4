package import TokenDomain

/// A record of `report.state.v1` that holds one report which waits in its token's line.
///
/// Its key: byte FE, the token's externalPurchaseId, byte FF and the place in the line as eight bytes,
/// the highest first. Neither byte occurs in UTF-8, so no id of a token makes such a key, and the
/// records of one token lie side by side in their order. Its value is the report.
package enum WaitingReport {
    private static let mark: UInt8 = 0xfe
    private static let end: UInt8 = 0xff
    private static let placeByteCount = 8

    package static func key(of id: TokenID, place: Int) -> [UInt8] {
        let number = UInt64(place)
        return [mark] + Array(id.text.utf8) + [end]
            + (0..<placeByteCount).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    }

    package static func isKey(_ key: [UInt8]) -> Bool { key.first == mark }

    /// Whether a key is that of a report that waits for this token.
    package static func isKey(_ key: Span<UInt8>, of id: TokenID) -> Bool {
        let text = Array(id.text.utf8)
        guard key.count == text.count + 2 + placeByteCount, key[0] == mark,
            key[text.count + 1] == end
        else {
            return false
        }
        return text.indices.allSatisfy { key[$0 + 1] == text[$0] }
    }

    package static func read(_ value: Span<UInt8>) throws(WireFault) -> ReportIntent {
        try .read(value: value)
    }

    package static func write(_ intent: ReportIntent, to arena: inout [UInt8]) {
        intent.append(to: &arena)
    }
}
