internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// A key of the state: what kind of record, of which purchase key, and which one.
///
/// The kind's byte comes first and then the purchase key with its length, so that all of a customer
/// and kind lie together.
struct BookKey: Hashable {
    enum Kind: UInt8 {
        case customer = 0x63  // c
        case event = 0x65  // e
        case item = 0x69  // i
        case subscription = 0x73  // s
        case token = 0x74  // t
    }

    let bytes: [UInt8]
    /// Of the bytes: a key is looked for a dozen times, and to hash it each time cost a twentieth of a sale.
    private let hash: Int

    /// A key of these bytes, made or read back.
    init(bytes: [UInt8]) {
        self.bytes = bytes
        var hasher = Hasher()
        // All at once: an array hashes them one by one.
        unsafe bytes.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        hash = hasher.finalize()
    }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }

    static func == (one: BookKey, other: BookKey) -> Bool {
        one.hash == other.hash && one.bytes == other.bytes
    }

    static func prefix(_ kind: Kind, _ purchaseKey: PurchaseKey) -> [UInt8] {
        bytes(kind, purchaseKey)
    }

    /// Made in one piece: a sale makes a dozen keys.
    private static func bytes(
        _ kind: Kind,
        _ purchaseKey: PurchaseKey,
        _ lane: Lane? = nil,
        _ rest: String = ""
    ) -> [UInt8] {
        let count = purchaseKey.text.utf8.count
        var bytes: [UInt8] = []
        bytes.reserveCapacity(3 + count + 9 + rest.utf8.count)
        // A purchase key is a customer or a token's id: 3,072 bytes at most.
        bytes.append(kind.rawValue)
        bytes.append(UInt8(count >> 8))
        bytes.append(UInt8(count & 0xff))
        bytes.append(contentsOf: purchaseKey.text.utf8)
        if let lane {
            bytes.append(lane.environment == .sandbox ? 1 : 0)
            BigEndian.append(lane.appAppleID, to: &bytes)
        }
        bytes.append(contentsOf: rest.utf8)
        return bytes
    }

    static func item(_ lineItemID: String, of purchaseKey: PurchaseKey, _ lane: Lane) -> BookKey {
        BookKey(bytes: bytes(.item, purchaseKey, lane, lineItemID))
    }

    /// Of the list of a purchase key's tokens.
    static func customer(_ purchaseKey: PurchaseKey) -> BookKey {
        BookKey(bytes: bytes(.customer, purchaseKey))
    }

    static func token(_ id: TokenID, of purchaseKey: PurchaseKey) -> BookKey {
        BookKey(bytes: bytes(.token, purchaseKey, nil, id.text))
    }

    /// The event of an item with a number: 0 is the buy or refund, restatements and retractions
    /// follow.
    func event(_ number: Int64) -> BookKey {
        var event: [UInt8] = []
        event.reserveCapacity(bytes.count + 8)
        event.append(Kind.event.rawValue)
        event.append(contentsOf: bytes.dropFirst())
        BigEndian.append(number, to: &event)
        return BookKey(bytes: event)
    }

    var kind: Kind? { bytes.first.flatMap { Kind(rawValue: $0) } }

    private var purchaseKeyEnd: Int {
        precondition(bytes.count > 2, "a key of the book names whose it is")
        return 3 + Int(bytes[1]) << 8 + Int(bytes[2])
    }

    var purchaseKeyBytes: ArraySlice<UInt8> { bytes[3..<purchaseKeyEnd] }

    var purchaseKey: PurchaseKey {
        PurchaseKey(String(decoding: purchaseKeyBytes, as: UTF8.self))
    }

    /// Of an item or a subscription.
    var lane: Lane {
        let start = purchaseKeyEnd
        return Lane(
            appAppleID: BigEndian.number(bytes, at: start + 1),
            environment: bytes[start] == 1 ? .sandbox : .production
        )
    }

    /// Of an item or a subscription: its id behind the lane.
    var name: String { String(decoding: nameBytes, as: UTF8.self) }

    /// Names are compared by these, as keys are: two texts of Swift are equal where Unicode says
    /// that they look alike.
    var nameBytes: ArraySlice<UInt8> { bytes[(purchaseKeyEnd + Self.laneByteCount)...] }

    func isNamed(_ name: String?) -> Bool {
        name.map { nameBytes.elementsEqual($0.utf8) } ?? false
    }

    /// Whether two names are one, byte for byte; none is the same as none.
    static func isSame(_ name: String?, _ other: String?) -> Bool {
        guard let name, let other else {
            return name == nil && other == nil
        }
        return name.utf8.elementsEqual(other.utf8)
    }

    /// Of a token.
    var tokenID: TokenID { TokenID(String(decoding: bytes[purchaseKeyEnd...], as: UTF8.self)) }

    // MARK: Others of the same customer

    /// Another item of the same app; this is an item's or a subscription's.
    func sibling(_ lineItemID: String) -> BookKey {
        other(.item, upTo: purchaseKeyEnd + Self.laneByteCount, lineItemID)
    }

    /// A subscription of the same app; this is an item's.
    func subscription(_ id: String) -> BookKey {
        other(.subscription, upTo: purchaseKeyEnd + Self.laneByteCount, id)
    }

    /// Of the list of the same purchase key's tokens.
    var customer: BookKey { other(.customer, upTo: purchaseKeyEnd, "") }

    func token(_ id: TokenID) -> BookKey { other(.token, upTo: purchaseKeyEnd, id.text) }

    /// Appends the key of a token.
    func append(_ token: TokenID, to other: inout [UInt8]) {
        other.append(Kind.token.rawValue)
        other.append(contentsOf: bytes[1..<purchaseKeyEnd])
        other.append(contentsOf: token.text.utf8)
    }

    private static let laneByteCount = 9

    /// The key that has the same bytes up to an end, but for its kind.
    private func other(_ kind: Kind, upTo end: Int, _ rest: String) -> BookKey {
        var other: [UInt8] = []
        other.reserveCapacity(end + rest.utf8.count)
        other.append(kind.rawValue)
        other.append(contentsOf: bytes[1..<end])
        other.append(contentsOf: rest.utf8)
        return BookKey(bytes: other)
    }
}

/// Where a record of the book lies: in which partition's state, under which key.
struct BookPlace: Hashable, Comparable {
    var partition: Int32
    var key: BookKey

    func at(_ key: BookKey) -> BookPlace { BookPlace(partition: partition, key: key) }

    /// A key mostly stands in one partition only.
    func hash(into hasher: inout Hasher) { key.hash(into: &hasher) }

    static func < (one: BookPlace, other: BookPlace) -> Bool {
        one.partition != other.partition
            ? one.partition < other.partition
            : one.key.bytes.lexicographicallyPrecedes(other.key.bytes)
    }
}
