internal import StateStore
internal import TokenDomain
internal import TokenWire

/// A record of `dedupe.state.v1`: a token that was taken, or one that Apple has refused.
///
/// One record a token holds what both look-ups ask for: "this id?" and "the primary of this period?".
///
/// Its key names what a removal, which has no value, takes along: base64url of the identity's key; for
/// a token of a period a dot and base64url of the period's key; for a later one than the first another
/// dot and its index in the period. Its value is `{"externalPurchaseId":…,"keysExpire":…}`, and
/// - `head`, `[tokens of the period, index of its primary, id of its primary]`, the last two left out
///   where Apple has refused all: what the period becomes with this record. Left out for the first
///   token of a period while it is its only one.
/// - `token`, of one behind the first, which may become the primary: its value of
///   `tokens.distinct.v1` without the role. `refusedToken` in its place: Apple has refused it, so it may not, unless Apple knows it
///   after all; `knownToken`: Apple does, and it may. An earlier version knows neither, and promotes no
///   such token.
/// - `isUnheard`: Apple has refused the token before it was read.
struct DedupeRecord: Equatable {
    var identity: DedupeKey
    /// Nil for a token without a period.
    var place: PeriodPlace?
    /// UTF-8.
    var externalPurchaseID: [UInt8]
    /// When it may be forgotten.
    var keysExpire: Timestamp
    /// Nil: the token is the first of its period, and its primary.
    var head: PeriodHead?
    /// An object, without its last brace.
    var token: [UInt8]?
    var tokenStanding = TokenStanding.taken
    var isUnheard = false

    /// What Apple has said of the token that is kept.
    enum TokenStanding {
        /// Nothing since it was taken, as `tollway account` reads it.
        case taken
        case refused
        /// That it knows it after all.
        case known
    }

    /// Characters of a ``DedupeKey`` in base64url.
    private static let keyTextCount = 22
    private static let dot = UInt8(ascii: ".")

    // MARK: Its key

    /// Appends the key of a record, given where the two keys that it names lie among `keys`.
    static func appendChangelogKey(
        _ keys: Span<UInt8>,
        identity: Range<Int>,
        period: Range<Int>?,
        index: UInt32,
        to arena: inout [UInt8]
    ) {
        Base64URL.encode(keys.extracting(identity), to: &arena)
        guard let period else {
            return
        }
        arena.append(dot)
        Base64URL.encode(keys.extracting(period), to: &arena)
        if index > 0 {
            arena.append(dot)
            arena.append(contentsOf: String(index).utf8)
        }
    }

    static func changelogKey(identity: DedupeKey, place: PeriodPlace?) -> [UInt8] {
        let keys = identity.bytes + (place?.period.bytes ?? [])
        var key: [UInt8] = []
        appendChangelogKey(
            keys.span,
            identity: 0..<DedupeKey.byteCount,
            period: place.map { _ in DedupeKey.byteCount..<keys.count },
            index: place?.index ?? 0,
            to: &key
        )
        return key
    }

    /// Nil where the key is none of ours.
    static func keys(inChangelogKey key: [UInt8]) -> (identity: DedupeKey, place: PeriodPlace?)? {
        let text = key.span
        guard text.count >= keyTextCount,
            let identity = decoded(text.extracting(0..<keyTextCount))
        else {
            return nil
        }
        guard text.count > keyTextCount else {
            return (identity, nil)
        }
        let periodEnd = 2 * keyTextCount + 1
        guard text.count >= periodEnd, text[keyTextCount] == dot,
            let period = decoded(text.extracting(keyTextCount + 1..<periodEnd))
        else {
            return nil
        }
        guard text.count > periodEnd else {
            return (identity, PeriodPlace(period: period, index: 0))
        }
        guard text[periodEnd] == dot,
            let index = UInt32(String(decoding: key[(periodEnd + 1)...], as: UTF8.self)), index > 0,
            String(index).utf8.count == text.count - periodEnd - 1
        else {
            return nil
        }
        return (identity, PeriodPlace(period: period, index: index))
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

    var changelogKey: [UInt8] { Self.changelogKey(identity: identity, place: place) }

    // MARK: Its value

    /// Appends the value of a record; the id is UTF-8, the token an object without its last brace.
    static func appendChangelogValue(
        externalPurchaseID: Span<UInt8>,
        keysExpire: Timestamp,
        head: PeriodHead? = nil,
        token: [UInt8]? = nil,
        tokenStanding: TokenStanding = .taken,
        isUnheard: Bool = false,
        to arena: inout [UInt8]
    ) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", utf8: externalPurchaseID)
            writer.field("keysExpire", keysExpire.milliseconds)
            if let head {
                writer.name("head")
                writer.beginArray()
                writer.integer(Int64(head.count))
                if let primary = head.primary, let id = head.primaryID {
                    writer.integer(Int64(primary.index))
                    writer.string(id.text)
                }
                writer.endArray()
            }
            if isUnheard {
                writer.field("isUnheard", true)
            }
            if let token {
                switch tokenStanding {
                case .taken: writer.name("token")
                case .refused: writer.name("refusedToken")
                case .known: writer.name("knownToken")
                }
                writer.raw(token + [UInt8(ascii: "}")])
            }
            writer.endObject()
        }
    }

    func changelogValue() -> [UInt8] {
        var value: [UInt8] = []
        Self.appendChangelogValue(
            externalPurchaseID: externalPurchaseID.span,
            keysExpire: keysExpire,
            head: head,
            token: token,
            tokenStanding: tokenStanding,
            isUnheard: isUnheard,
            to: &value
        )
        return value
    }

    /// Reads a record of the changelog.
    ///
    /// - Throws: what is wrong with the value.
    init(
        identity: DedupeKey,
        place: PeriodPlace?,
        changelogValue: [UInt8]
    ) throws(WireFault) {
        var id: [UInt8]?
        var keysExpire: Timestamp?
        var head: PeriodHead?
        var token: [UInt8]?
        var tokenStanding = TokenStanding.taken
        var isUnheard: Bool?
        try JSONScanner.scanObject(changelogValue.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId":
                guard id == nil else {
                    throw .repeated(field: "externalPurchaseId")
                }
                id = try scanner.stringBytes()
            case "keysExpire": try scanner.fill(&keysExpire)
            case "head": head = try Self.head(&scanner)
            case "isUnheard": try scanner.fill(&isUnheard)
            case "token": token = try Self.token(&scanner)
            case "refusedToken": (token, tokenStanding) = (try Self.token(&scanner), .refused)
            case "knownToken": (token, tokenStanding) = (try Self.token(&scanner), .known)
            default: try scanner.skip()
            }
        }
        self.init(
            identity: identity,
            place: place,
            externalPurchaseID: try JSONScanner.require(id, "externalPurchaseId"),
            keysExpire: try JSONScanner.require(keysExpire, "keysExpire"),
            head: head,
            token: token,
            tokenStanding: tokenStanding,
            isUnheard: isUnheard ?? false
        )
        if let place, place.index > 0 {
            _ = try JSONScanner.require(head, "head")
        }
    }

    private static func token(_ scanner: inout JSONScanner) throws(WireFault) -> [UInt8] {
        var token = try scanner.raw()
        guard token.popLast() == UInt8(ascii: "}") else {
            throw .wrongType(field: "token")
        }
        return token
    }

    private static func head(_ scanner: inout JSONScanner) throws(WireFault) -> PeriodHead {
        var numbers: [UInt32] = []
        var id: String?
        try scanner.beginArray()
        while try scanner.nextElement() {
            if numbers.count < 2 {
                numbers.append(UInt32(clamping: try scanner.integer()))
            } else {
                id = try scanner.string()
            }
        }
        switch (numbers.count, id) {
        case (1, nil):
            return PeriodHead(count: numbers[0], primary: nil)
        case (2, let id?):
            return PeriodHead(
                count: numbers[0],
                primary: PeriodHead.Primary(index: numbers[1], id: Array(id.utf8))
            )
        default:
            throw .wrongType(field: "head")
        }
    }

    init(
        identity: DedupeKey,
        place: PeriodPlace?,
        externalPurchaseID: [UInt8],
        keysExpire: Timestamp,
        head: PeriodHead? = nil,
        token: [UInt8]? = nil,
        tokenStanding: TokenStanding = .taken,
        isUnheard: Bool = false
    ) {
        self.identity = identity
        self.place = place
        self.externalPurchaseID = externalPurchaseID
        self.keysExpire = keysExpire
        self.head = head
        self.token = token
        self.tokenStanding = tokenStanding
        self.isUnheard = isUnheard
    }
}

extension DedupeRecord {
    /// What the record means for the local store.
    func write(to changes: inout StoreChanges) {
        let standing: DedupeEntry.Standing =
            isUnheard ? .refusedUnheard : place.map { .member($0) } ?? .heard
        changes.put(
            DedupeEntry.identityValue(keysExpire: keysExpire, standing),
            forKey: DedupeEntry.key(ofIdentity: identity),
            in: .state
        )
        guard let place else {
            return
        }
        let head =
            head ?? PeriodHead(count: 1, primary: .init(index: 0, id: externalPurchaseID))
        changes.put(head.entry, forKey: DedupeEntry.key(ofPeriod: place.period), in: .state)
        guard place.index > 0 else {
            return
        }
        let isRefused = tokenStanding == .refused
        let key = DedupeEntry.key(ofMember: place, isRefused: isRefused)
        changes.remove(
            key: DedupeEntry.key(ofMember: place, isRefused: !isRefused),
            from: .state
        )
        guard let token else {
            return changes.remove(key: key, from: .state)
        }
        var value: [UInt8] = []
        DedupeEntry.appendMemberValue(
            id: externalPurchaseID.span,
            token: token.span,
            to: &value
        )
        changes.put(value, forKey: key, in: .state)
    }

    /// The entries that its removal takes away.
    static func entryKeys(identity: DedupeKey, place: PeriodPlace?) -> [[UInt8]] {
        let own = DedupeEntry.key(ofIdentity: identity)
        guard let place else {
            return [own]
        }
        guard place.index > 0 else {
            return [own, DedupeEntry.key(ofPeriod: place.period)]
        }
        return [
            own, DedupeEntry.key(ofMember: place),
            DedupeEntry.key(ofMember: place, isRefused: true),
        ]
    }
}
