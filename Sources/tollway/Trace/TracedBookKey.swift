internal import StateStore
internal import TokenDomain

/// A key of `purchases.state.v1` that names a line item or a subscription, whose form is the worker's
/// own: a letter for the kind, whose it is with its length, environment and app, and the name.
struct TracedBookKey: Equatable {
    enum Kind: UInt8 {
        /// Of a line item: its name, and a number of eight bytes.
        case event = 0x65  // e
        case item = 0x69  // i
        case subscription = 0x73  // s
    }

    let kind: Kind
    let purchaseKey: String
    let lane: Lane
    let name: String

    /// Nil for what is no such key.
    init?(_ key: [UInt8]) {
        guard key.count > 3, let kind = Kind(rawValue: key[0]) else {
            return nil
        }
        let laneStart = 3 + Int(key[1]) << 8 + Int(key[2])
        let nameStart = laneStart + 9
        let nameEnd = key.count - (kind == .event ? 8 : 0)
        guard nameStart <= nameEnd else {
            return nil
        }
        self.kind = kind
        purchaseKey = String(decoding: key[3..<laneStart], as: UTF8.self)
        lane = Lane(
            appAppleID: BigEndian.number(key, at: laneStart + 1),
            environment: key[laneStart] == 1 ? .sandbox : .production
        )
        name = String(decoding: key[nameStart..<nameEnd], as: UTF8.self)
    }

    /// The key of a line item without the letter for its kind.
    static func itemTail(_ name: String, of purchaseKey: String, _ lane: Lane) -> [UInt8] {
        let count = purchaseKey.utf8.count
        var tail = [UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
        tail.append(contentsOf: purchaseKey.utf8)
        tail.append(lane.environment == .sandbox ? 1 : 0)
        BigEndian.append(lane.appAppleID, to: &tail)
        tail.append(contentsOf: name.utf8)
        return tail
    }
}
