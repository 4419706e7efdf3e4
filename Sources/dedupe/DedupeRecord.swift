internal import StateStore
internal import TokenDomain
internal import TokenWire

/// A record of `dedupe.state.v1`, a token that was taken.
///
/// One record a token holds what both
/// look-ups ask for: "this id?" and "the first of this period?".
///
/// Its key names both look-ups, so that a removal, which has no value, says what else goes:
/// base64url of the identity's key; for the first token of a period a dot and base64url of the
/// period's key. Its value is `{"externalPurchaseId":…,"keysExpire":…}`.
struct DedupeRecord: Equatable {
    var identity: DedupeKey
    /// Where this token is the first of its period.
    var period: DedupeKey?
    /// UTF-8.
    var externalPurchaseID: [UInt8]
    /// When it may be forgotten.
    var keysExpire: Timestamp

    /// Characters of a ``DedupeKey`` in base64url.
    private static let keyTextCount = 22

    // MARK: In the changelog

    /// Appends the key of a record, given the bytes of the two keys that it names.
    static func appendChangelogKey(
        identity: ArraySlice<UInt8>,
        period: ArraySlice<UInt8>?,
        to arena: inout [UInt8]
    ) {
        Base64URL.encode(identity.span, to: &arena)
        if let period {
            arena.append(UInt8(ascii: "."))
            Base64URL.encode(period.span, to: &arena)
        }
    }

    static func changelogKey(identity: DedupeKey, period: DedupeKey?) -> [UInt8] {
        var key: [UInt8] = []
        appendChangelogKey(identity: identity.bytes[...], period: period?.bytes[...], to: &key)
        return key
    }

    /// Nil where the key is none of ours.
    static func keys(inChangelogKey key: [UInt8]) -> (identity: DedupeKey, period: DedupeKey?)? {
        let text = key.span
        guard text.count >= keyTextCount,
            let identity = decoded(text.extracting(0..<keyTextCount))
        else {
            return nil
        }
        guard text.count > keyTextCount else {
            return (identity, nil)
        }
        guard text.count == 2 * keyTextCount + 1, text[keyTextCount] == UInt8(ascii: "."),
            let period = decoded(text.extracting(keyTextCount + 1..<text.count))
        else {
            return nil
        }
        return (identity, period)
    }

    private static func decoded(_ text: Span<UInt8>) -> DedupeKey? {
        do {
            let bytes = try Base64URL.decodeStrict(text)
            return bytes.count == DedupeKey.byteCount ? DedupeKey(bytes.span) : nil
        } catch {
            // What the text is instead does not matter: no key of ours.
            return nil
        }
    }

    var changelogKey: [UInt8] { Self.changelogKey(identity: identity, period: period) }

    /// Appends the value of a record; the id is UTF-8.
    static func appendChangelogValue(
        externalPurchaseID: Span<UInt8>,
        keysExpire: Timestamp,
        to arena: inout [UInt8]
    ) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", utf8: externalPurchaseID)
            writer.field("keysExpire", keysExpire.milliseconds)
            writer.endObject()
        }
    }

    func changelogValue() -> [UInt8] {
        var value: [UInt8] = []
        Self.appendChangelogValue(
            externalPurchaseID: externalPurchaseID.span,
            keysExpire: keysExpire,
            to: &value
        )
        return value
    }

    /// - Throws: what is wrong with the value.
    init(identity: DedupeKey, period: DedupeKey?, changelogValue: [UInt8]) throws(WireFault) {
        var texts: [UInt8] = []
        var id: Range<Int>?
        var keysExpire: Timestamp?
        try JSONScanner.scanObject(changelogValue.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId":
                id = try scanner.appendString(
                    to: &texts,
                    isFirstTime: id == nil,
                    atMost: nil
                )
            case "keysExpire": try scanner.fill(&keysExpire)
            default: try scanner.skip()
            }
        }
        _ = try JSONScanner.require(id, "externalPurchaseId")
        self.init(
            identity: identity,
            period: period,
            externalPurchaseID: texts,
            keysExpire: try JSONScanner.require(keysExpire, "keysExpire")
        )
    }

    init(
        identity: DedupeKey,
        period: DedupeKey?,
        externalPurchaseID: [UInt8],
        keysExpire: Timestamp
    ) {
        self.identity = identity
        self.period = period
        self.externalPurchaseID = externalPurchaseID
        self.keysExpire = keysExpire
    }
}

/// The entries of the state table that a ``DedupeRecord`` becomes.
///
/// An identity: `i` + key → when it expires (8 bytes, big-endian) + the period's key, where the
/// token is the first of one. A period: `p` + key → the id of its first token.
enum DedupeEntry {
    static let identityPrefix = UInt8(ascii: "i")
    static let periodPrefix = UInt8(ascii: "p")
    private static let expiryByteCount = 8

    static func key(ofIdentity key: DedupeKey) -> [UInt8] { [identityPrefix] + key.bytes }
    static func key(ofPeriod key: DedupeKey) -> [UInt8] { [periodPrefix] + key.bytes }

    /// Appends the value of an identity's entry, given the bytes of the period's key.
    static func appendIdentityValue(
        keysExpire: Timestamp,
        period: ArraySlice<UInt8>?,
        to arena: inout [UInt8]
    ) {
        unsafe withUnsafeBytes(of: keysExpire.milliseconds.bigEndian) { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
        if let period {
            arena.append(contentsOf: period)
        }
    }

    /// The value of an identity's entry.
    static func identityValue(keysExpire: Timestamp, period: DedupeKey?) -> [UInt8] {
        var value: [UInt8] = []
        appendIdentityValue(keysExpire: keysExpire, period: period?.bytes[...], to: &value)
        return value
    }

    /// Reads an identity's entry back: its keys, and when they expire.
    static func identity(
        key: [UInt8],
        value: [UInt8]
    ) -> (identity: DedupeKey, period: DedupeKey?, keysExpire: Timestamp) {
        precondition(
            key.count == 1 + DedupeKey.byteCount && key[0] == identityPrefix
                && (value.count == expiryByteCount
                    || value.count == expiryByteCount + DedupeKey.byteCount),
            "an entry of the local state is what this worker wrote"
        )
        var word: UInt64 = 0
        for index in 0..<expiryByteCount {
            word = word << 8 | UInt64(value[index])
        }
        let period =
            value.count == expiryByteCount
            ? nil : DedupeKey(value.span.extracting(expiryByteCount..<value.count))
        return (
            DedupeKey(key.span.extracting(1..<key.count)), period,
            Timestamp(milliseconds: Int64(bitPattern: word))
        )
    }
}
