internal import Crypto
internal import TokenDomain
internal import TokenWire

/// Knows which decoded tokens of a window are repeats: the same customer's same token was taken before, in
/// the same partition, or, by dedupe's state, before what Kafka still has.
///
/// Dedupe writes a token's record again when Apple refuses it, so that its time is no more that of the
/// taking. What was decoded before that is the token itself or its repeat: it is a repeat where no
/// classified token is found for it, for Apple cannot refuse what dedupe has lost.
struct RepeatCount {
    let window: AccountWindow
    /// Of the partitions that are read: when the first record of a token in the state was written.
    private var times: [UInt64: Int64] = [:]
    /// Those whose record may be a later one than that of the taking.
    private var rewritten: Set<UInt64> = []
    private var seen: Set<UInt64> = []
    /// Decoded, and not classified so far; with their app.
    private var unclassified: [UInt64: Int64] = [:]

    private static let head = ByteNeedle(Array(#""head":"#.utf8))
    private static let unheard = ByteNeedle(Array(#""isUnheard":true"#.utf8))
    private static let token = ByteNeedle(Array(#""token":{"#.utf8))

    init(window: AccountWindow) {
        self.window = window
    }

    /// Forgets what is known of other partitions.
    mutating func beginPartitions() {
        times = [:]
        rewritten = []
        seen = []
    }

    /// Takes a record of dedupe's state.
    mutating func takeState(key: Span<UInt8>, value: Span<UInt8>, recordTime: Int64) {
        // What Apple refused before it came in was not taken then.
        guard let digest = IdentityDigest.of(changelogKey: key), !Self.unheard.isIn(value) else {
            return
        }
        times[digest] = min(times[digest] ?? .max, recordTime)
        // Its period has become another with it, and it is no duplicate that may become the primary.
        if Self.head.isIn(value), !Self.token.isIn(value), !Self.isPrimary(key, value) {
            rewritten.insert(digest)
        }
    }

    /// Whether a record's head names the token itself: so it was taken, once Apple had refused all before
    /// it.
    private static func isPrimary(_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
        let index = IdentityDigest.periodIndex(ofChangelogKey: key)
        var primary: Int64?
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                guard key == "head" else {
                    return try scanner.skip()
                }
                // How many the period has, the index of its primary, and its id.
                try scanner.beginArray()
                var isFirst = true
                while try scanner.nextElement() {
                    if isFirst || primary != nil {
                        try scanner.skip()
                    } else {
                        primary = try scanner.integer()
                    }
                    isFirst = false
                }
            }
        } catch {
            // No record of dedupe's.
            return false
        }
        return primary == index
    }

    /// Takes a decoded token, after the state of its partition.
    ///
    /// - Returns: whether it is a repeat; what is none may yet be one of ``lateRepeats``.
    mutating func takeDecoded(_ token: TokenDecoded, recordTime: Int64) -> Bool {
        let digest = IdentityDigest.of(token.token.externalPurchaseID, token.customer)
        guard seen.insert(digest).inserted else {
            return true
        }
        guard let time = times[digest] else {
            return false
        }
        guard time >= recordTime - AccountWindow.margin.count else {
            return true
        }
        if rewritten.contains(digest), window.contains(token.receivedAt) {
            unclassified[digest] = token.token.appAppleID
        }
        return false
    }

    /// Takes a classified token of the window, after all that was decoded.
    mutating func takeDistinct(_ token: TokenDistinct) {
        guard !unclassified.isEmpty else {
            return
        }
        unclassified[IdentityDigest.of(token.externalPurchaseID, token.customer)] = nil
    }

    /// Repeats that are known as such only when all is read, by app.
    var lateRepeats: [Int64: Int] {
        unclassified.values.reduce(into: [:]) { counts, app in counts[app, default: 0] += 1 }
    }
}

/// Which customer's token it is, in eight bytes: the head of dedupe's own key.
enum IdentityDigest {
    private static let keyTextCount = 22

    static func of(_ id: TokenID, _ customer: CustomerID?) -> UInt64 {
        var material: [UInt8] = []
        DedupeMaterial.appendIdentity(
            externalPurchaseID: id.text.utf8.span,
            customer: (customer?.text ?? "").utf8.span,
            to: &material
        )
        return DedupeKey(Hash.sha256(material).span).high
    }

    /// Which token of its period it is, from 0; the first of one is not said.
    static func periodIndex(ofChangelogKey key: Span<UInt8>) -> Int64 {
        let start = 2 * (keyTextCount + 1)
        guard key.count > start else {
            return 0
        }
        return (start..<key.count).reduce(0) {
            $0 &* 10 &+ Int64(key[$1]) &- Int64(UInt8(ascii: "0"))
        }
    }

    /// Nil where the key is none of dedupe's.
    static func of(changelogKey key: Span<UInt8>) -> UInt64? {
        guard key.count >= keyTextCount else {
            return nil
        }
        do {
            let bytes = try Base64URL.decodeStrict(key.extracting(0..<keyTextCount))
            return bytes.count == DedupeKey.byteCount ? DedupeKey(bytes.span).high : nil
        } catch {
            return nil
        }
    }
}
