internal import Glibc
package import TokenDomain

/// Turns values of `tokens.received.v1` into values of `tokens.decoded.v1`, bytes to bytes.
///
/// A record that looks as Apple and ingest write it costs no allocation.
@safe
package struct ReceivedDecoder: ~Copyable {
    /// The apps we report for: bundle id by app id.
    package struct Apps: Equatable, Sendable {
        /// In ascending order: there are few, and every token looks for one.
        private var ids: [Int64] = []
        private var bundleIDs: [[UInt8]] = []

        package init(_ apps: some Sequence<(appAppleID: Int64, bundleID: String)>) {
            for app in apps {
                let index = place(of: app.appAppleID)
                let bundleID = Array(app.bundleID.utf8)
                if index < ids.count, ids[index] == app.appAppleID {
                    bundleIDs[index] = bundleID
                } else {
                    ids.insert(app.appAppleID, at: index)
                    bundleIDs.insert(bundleID, at: index)
                }
            }
        }

        func bundleID(of appAppleID: Int64) -> [UInt8]? {
            let index = place(of: appAppleID)
            return index < ids.count && ids[index] == appAppleID ? bundleIDs[index] : nil
        }

        /// The index of the first id that is not below this one.
        private func place(of id: Int64) -> Int {
            var (start, end) = (0, ids.count)
            while start < end {
                let middle = (start + end) / 2
                (start, end) = ids[middle] < id ? (middle + 1, end) : (start, middle)
            }
            return start
        }
    }

    /// Where in the arena the bytes of a record lie that is to be written.
    package struct Written: Equatable, Sendable {
        package var value: Range<Int>
        package var key: Range<Int>
    }

    private var reader = TokenReader()
    /// Texts of the envelope that had escapes, without them.
    private var unescaped: UnsafeMutableBufferPointer<UInt8>
    private var unescapedCount = 0
    /// What a `seen` record can say of the last value, if that was refused.
    private var known = TokenFields<String>()
    private var receivedAt = Timestamp(milliseconds: 0)

    package init() {
        unsafe unescaped = .allocate(capacity: 0)
    }

    deinit {
        unsafe unescaped.deallocate()
    }

    /// Judges one value and appends the resulting value to an arena.
    ///
    /// `recordTime` is Kafka's own time of the record. Tokens of every app but `apps` are refused.
    ///
    /// - Throws: why it is a dead letter; ``writeSeen(to:)`` may then have something to say.
    package mutating func decode(
        _ value: Span<UInt8>,
        recordTime: Timestamp,
        apps: Apps,
        into arena: inout [UInt8]
    ) throws(DecodeFault) -> Written {
        known = TokenFields<String>()
        receivedAt = recordTime
        let envelope: ReceivedEnvelope
        do throws(WireFault) {
            envelope = try ReceivedEnvelope.read(value)
        } catch {
            salvage(value)
            throw .badEnvelope(reason: error.message)
        }
        receivedAt = TokenReceived.receivedAt(
            stated: envelope.fields.receivedAt.map { Timestamp(milliseconds: $0) },
            recordTime: recordTime
        )
        return try unsafe value.withUnsafeBufferPointer { (value) throws(DecodeFault) in
            try unsafe decode(envelope, value, apps, &arena)
        }
    }

    private mutating func decode(
        _ envelope: ReceivedEnvelope,
        _ value: UnsafeBufferPointer<UInt8>,
        _ apps: Apps,
        _ arena: inout [UInt8]
    ) throws(DecodeFault) -> Written {
        unescapedCount = 0
        guard let token = envelope.fields.token else {
            preconditionFailure("an envelope without token is refused when it is read")
        }
        let isPlain = envelope.isPlain
        let text = unsafe TokenText.trimmed(content(token, isPlain, value))
        do throws(DecodeFault) {
            try unsafe reader.read(trimmed: text)
        } catch {
            known = reader.known
            throw error
        }
        do throws(DecodeFault) {
            let customer = unsafe try customer(envelope, value)
            try unsafe check(
                apps,
                linkedBundleID: envelope.fields.bundleID.map { unsafe content($0, isPlain, value) }
            )
            return unsafe write(text, customer, to: &arena)
        } catch {
            known = reader.known
            throw error
        }
    }

    /// The customer's bytes, in the only form that may stand in a topic.
    private mutating func customer(
        _ envelope: ReceivedEnvelope,
        _ value: UnsafeBufferPointer<UInt8>
    ) throws(DecodeFault) -> UnsafeBufferPointer<UInt8>? {
        guard let range = envelope.fields.customer else {
            guard !envelope.isCustomerOther else {
                throw .badCustomer
            }
            return nil
        }
        let text = unsafe content(range, envelope.isPlain, value)
        guard unsafe CustomerID.isWellFormed(Span(_unsafeElements: text)) else {
            throw .badCustomer
        }
        return unsafe text
    }

    /// Whether the token is for an app of ours, and for the one whose link it came by.
    private func check(
        _ apps: Apps,
        linkedBundleID: UnsafeBufferPointer<UInt8>?
    ) throws(DecodeFault) {
        guard let bundleID = apps.bundleID(of: reader.fields.appAppleID) else {
            throw .unknownApp(appAppleID: reader.fields.appAppleID)
        }
        let stated = unsafe reader.slice(reader.fields.bundleID)
        let isApps = unsafe bundleID.withUnsafeBufferPointer { unsafe Self.areSame($0, stated) }
        guard isApps, unsafe linkedBundleID.map({ unsafe Self.areSame($0, stated) }) ?? true else {
            throw .bundleMismatch
        }
    }

    private static func areSame(
        _ one: UnsafeBufferPointer<UInt8>,
        _ other: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard one.count == other.count else {
            return false
        }
        guard let start = one.baseAddress, let otherStart = other.baseAddress else {
            return one.count == 0
        }
        return unsafe memcmp(start, otherStart, one.count) == 0
    }

    /// The app of the last value, which was decoded.
    package var appAppleID: Int64 { reader.fields.appAppleID }

    /// The app of the last value, which was refused: nil where it cannot be read, or is none of ours.
    package func appOfRefused(among apps: Apps) -> Int64? {
        known.appAppleID.flatMap { apps.bundleID(of: $0) == nil ? nil : $0 }
    }

    // MARK: Texts of the envelope

    /// A string's content: in place, or without its escapes in memory of our own.
    private mutating func content(
        _ range: Range<Int>,
        _ isPlain: Bool,
        _ value: UnsafeBufferPointer<UInt8>
    ) -> UnsafeBufferPointer<UInt8> {
        let raw = unsafe UnsafeBufferPointer(rebasing: value[range])
        guard unsafe !isPlain && raw.contains(UInt8(ascii: "\\")) else {
            return unsafe raw
        }
        if unsafe unescapedCount == 0 && unescaped.count < value.count {
            // Made large enough for all texts of this value before the first one is lent.
            unsafe unescaped.deallocate()
            unsafe unescaped = .allocate(capacity: value.count)
            unsafe unescaped.initialize(repeating: 0)
        }
        let target = unsafe UnsafeMutableBufferPointer(rebasing: unescaped[unescapedCount...])
        let count = unsafe JSONString.unescape(raw, into: target)
        unescapedCount += count
        return unsafe UnsafeBufferPointer(rebasing: target[..<count])
    }

    /// Looks for the token's id in a value that is refused for its envelope.
    private mutating func salvage(_ value: Span<UInt8>) {
        guard let token = ReceivedEnvelope.salvageToken(value) else {
            return
        }
        do throws(DecodeFault) {
            try reader.read(token.span)
        } catch {
            // The envelope's fault stands; what is known of the token is all that is asked here.
        }
        known = reader.known
    }

    // MARK: Outputs

    private func write(
        _ text: UnsafeBufferPointer<UInt8>,
        _ customer: UnsafeBufferPointer<UInt8>?,
        to arena: inout [UInt8]
    ) -> Written {
        guard reader.isPlain else {
            return unsafe writeCarefully(text, customer, to: &arena)
        }
        var fields = DecodedFields<LentText>()
        fields.token.externalPurchaseID = lent(reader.fields.externalPurchaseID)
        fields.token.appAppleID = reader.fields.appAppleID
        fields.token.bundleID = lent(reader.fields.bundleID)
        fields.token.tokenType = reader.fields.tokenType.map { lent($0) }
        fields.token.tokenCreationDate = reader.fields.tokenCreationDate
        fields.token.tokenExpirationDate = reader.fields.tokenExpirationDate
        // In its one form, which has nothing to escape.
        unsafe fields.customer = customer.map { unsafe LentText($0) }
        fields.receivedAt = receivedAt.milliseconds
        // Base64: nothing to escape.
        unsafe fields.text = LentText(text)
        let start = arena.count
        JSONWriter.append(to: &arena) { writer in
            var count = PlainByteCount()
            fields.members(&count)
            PlainWriter.append(to: &writer, byteCountMax: count.byteCountMax) {
                fields.members(&$0)
            }
        }
        guard let key = fields.customer ?? fields.token.externalPurchaseID else {
            preconditionFailure("a token that was read has an id")
        }
        return Written(value: start..<arena.count, key: key.place)
    }

    private func lent(_ range: Range<Int>) -> LentText {
        unsafe LentText(reader.slice(range))
    }

    /// Writes a token whose texts may have something to escape.
    private func writeCarefully(
        _ text: UnsafeBufferPointer<UInt8>,
        _ customer: UnsafeBufferPointer<UInt8>?,
        to arena: inout [UInt8]
    ) -> Written {
        let token = reader.token
        var fields = DecodedFields<String>()
        fields.token = TokenFields(token)
        unsafe fields.customer = customer.map { unsafe String(decoding: $0, as: UTF8.self) }
        fields.receivedAt = receivedAt.milliseconds
        unsafe fields.text = String(decoding: text, as: UTF8.self)
        let key = fields.customer ?? token.externalPurchaseID.text
        return Self.write(key: key, to: &arena) { fields.write(to: &$0) }
    }

    /// Appends the `seen` record that goes with the dead letter of the last value.
    ///
    /// - Returns: nil where not even the token's id could be read; then there is no such record.
    package func writeSeen(to arena: inout [UInt8]) -> (id: TokenID, written: Written)? {
        guard let id = known.externalPurchaseID else {
            return nil
        }
        var fields = DistinctFields()
        fields.kept.token = known
        fields.kept.receivedAt = receivedAt.milliseconds
        fields.role = .seen
        return (TokenID(id), Self.write(key: id, to: &arena) { fields.write(to: &$0) })
    }

    /// Appends a value and behind it its key, which has nothing escaped.
    private static func write(
        key: String,
        to arena: inout [UInt8],
        _ write: (inout [UInt8]) -> Void
    ) -> Written {
        let start = arena.count
        write(&arena)
        let value = start..<arena.count
        arena.append(contentsOf: key.utf8)
        return Written(value: value, key: value.upperBound..<arena.count)
    }
}
