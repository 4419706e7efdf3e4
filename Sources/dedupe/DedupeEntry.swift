internal import TokenDomain

/// The entries of the state table that a ``DedupeRecord`` becomes.
///
/// - An identity, `i` + key: when it expires (8 bytes, big-endian), then what is known of it:
///   - nothing more: it was read, and has no place in a period;
///   - the key of its period: it is the first of that;
///   - the key of its period and an index (4 bytes): it is a later one;
///   - one byte: Apple refused it before it was read.
/// - A period, `p` + key: its ``PeriodHead``.
/// - A token behind the first of its period, which may yet become the primary, `m` + the period's
///   key + index: the length of its id (4 bytes), its id, and its value of `tokens.distinct.v1` up to
///   the role.
/// - The same with `r`: Apple has refused it, and may yet know it.
enum DedupeEntry {
    static let identityPrefix = UInt8(ascii: "i")
    static let periodPrefix = UInt8(ascii: "p")
    static let memberPrefix = UInt8(ascii: "m")
    static let refusedPrefix = UInt8(ascii: "r")
    private static let expiryByteCount = 8
    private static let indexByteCount = 4

    /// What is known of an identity.
    enum Standing: Equatable {
        /// Read; no period, or read before places were kept.
        case heard
        case member(PeriodPlace)
        /// Refused by Apple before it was read.
        case refusedUnheard
    }

    static func key(ofIdentity key: DedupeKey) -> [UInt8] { [identityPrefix] + key.bytes }
    static func key(ofPeriod key: DedupeKey) -> [UInt8] { [periodPrefix] + key.bytes }

    static func key(ofMember place: PeriodPlace, isRefused: Bool = false) -> [UInt8] {
        var key = [isRefused ? refusedPrefix : memberPrefix] + place.period.bytes
        PeriodHead.append(place.index, to: &key)
        return key
    }

    // MARK: Identities

    /// Appends the value of an identity's entry, given where the period's key lies among `keys`.
    static func appendIdentityValue(
        keysExpire: Timestamp,
        _ keys: Span<UInt8>,
        period: Range<Int>?,
        index: UInt32,
        to arena: inout [UInt8]
    ) {
        appendExpiry(keysExpire, to: &arena)
        if let period {
            append(keys.extracting(period), to: &arena)
            if index > 0 {
                PeriodHead.append(index, to: &arena)
            }
        }
    }

    private static func appendExpiry(_ keysExpire: Timestamp, to arena: inout [UInt8]) {
        unsafe withUnsafeBytes(of: keysExpire.milliseconds.bigEndian) { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
    }

    /// The value of an identity's entry.
    static func identityValue(keysExpire: Timestamp, _ standing: Standing) -> [UInt8] {
        var value: [UInt8] = []
        switch standing {
        case .heard:
            appendExpiry(keysExpire, to: &value)
        case .member(let place):
            let key = place.period.bytes
            appendIdentityValue(
                keysExpire: keysExpire,
                key.span,
                period: key.indices,
                index: place.index,
                to: &value
            )
        case .refusedUnheard:
            appendExpiry(keysExpire, to: &value)
            value.append(1)
        }
        return value
    }

    static func isRefusedUnheard(_ value: Span<UInt8>) -> Bool {
        value.count == expiryByteCount + 1
    }

    /// Reads the value of an identity's entry back.
    static func identity(_ value: Span<UInt8>) -> (standing: Standing, keysExpire: Timestamp) {
        precondition(
            value.count >= expiryByteCount,
            "an entry of the local state is what this worker wrote"
        )
        var word: UInt64 = 0
        for index in 0..<expiryByteCount {
            word = word << 8 | UInt64(value[index])
        }
        let expiry = Timestamp(milliseconds: Int64(bitPattern: word))
        let periodEnd = expiryByteCount + DedupeKey.byteCount
        func place(_ index: UInt32) -> PeriodPlace {
            PeriodPlace(
                period: DedupeKey(value.extracting(expiryByteCount..<periodEnd)),
                index: index
            )
        }
        switch value.count {
        case expiryByteCount: return (.heard, expiry)
        case expiryByteCount + 1: return (.refusedUnheard, expiry)
        case periodEnd: return (.member(place(0)), expiry)
        case periodEnd + indexByteCount:
            return (.member(place(PeriodHead.number(value, at: periodEnd))), expiry)
        default: preconditionFailure("an entry of the local state is what this worker wrote")
        }
    }

    // MARK: Members

    static func appendMemberValue(
        id: Span<UInt8>,
        token: Span<UInt8>,
        to arena: inout [UInt8]
    ) {
        PeriodHead.append(UInt32(id.count), to: &arena)
        append(id, to: &arena)
        append(token, to: &arena)
    }

    private static func append(_ bytes: Span<UInt8>, to arena: inout [UInt8]) {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
    }

    static func member(_ value: Span<UInt8>) -> (id: [UInt8], token: [UInt8]) {
        let end = indexByteCount + Int(PeriodHead.number(value, at: 0))
        return (
            PeriodHead.bytes(value.extracting(0..<end), from: indexByteCount),
            PeriodHead.bytes(value, from: end)
        )
    }
}
