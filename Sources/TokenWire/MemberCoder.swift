package import TokenDomain

/// One way through the members of a message, in the order in which they are written.
///
/// A message declares its members once, as calls of a coder: a reader fills the slot of each member that
/// it finds, a writer writes each slot that is not nil. No call throws: a reader notes its first fault and
/// reads no further. So the calls are inlined into the coder's pass, and every name is a constant there.
package protocol MemberCoder<Text>: ~Copyable {
    /// How a text is held.
    associatedtype Text

    mutating func text(
        _ name: StaticString,
        _ slot: inout Text?,
        atMost limit: TextLimit?
    )

    mutating func integer(_ name: StaticString, _ slot: inout Int64?)

    /// The member `environment`, which follows from a token's id: written, and not read.
    mutating func environment(of id: Text?)

    /// A text or an integer that others may write as they like: of another type it is as good as absent,
    /// and the last one counts.
    mutating func lenient(_ name: StaticString, _ slot: inout Text?)
    mutating func lenient(_ name: StaticString, _ slot: inout Int64?)
}

extension MemberCoder where Self: ~Copyable {
    @inline(__always)
    package mutating func lenient(_ name: StaticString, _ slot: inout Text?) {
        text(name, &slot, atMost: nil)
    }

    @inline(__always)
    package mutating func lenient(_ name: StaticString, _ slot: inout Int64?) {
        integer(name, &slot)
    }
}

/// A coder of messages whose members are values with a type of their own.
///
/// A slot that is no `Optional` is a required member: it is a fault where there is none. A null counts
/// as absent, and a member may not stand twice.
package protocol ValueCoder: MemberCoder, ~Copyable where Text == String {
    /// The limit is that of each text in the value.
    mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value,
        atMost limit: TextLimit?
    )

    mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value?,
        atMost limit: TextLimit?
    )

    /// A member that may be absent, which is as good as the default: that is written only on demand.
    mutating func member<Value: WireValue & Equatable>(
        _ name: StaticString,
        _ slot: inout Value,
        default: Value,
        isAlwaysWritten: Bool,
        atMost limit: TextLimit?
    )

    /// An object or array of anything, kept byte for byte.
    mutating func member(
        _ name: StaticString,
        raw kind: JSONScanner.Kind,
        _ slot: inout String?
    )

    mutating func member(
        _ name: StaticString,
        raw kind: JSONScanner.Kind,
        _ slot: inout String
    )

    /// The member `environment` where others may state it: another one than the id's is refused.
    mutating func environment(statedFor id: TokenID)

    /// The member `environment`; that of the token, if there is one, or production where none is stated.
    mutating func environment(_ slot: inout AppleEnvironment, orOf id: TokenID?)

    /// The members `role` and `primaryExternalPurchaseId`, which is the primary of a duplicate.
    mutating func role(_ slot: inout TokenRole?, atMost limit: TextLimit?)

    /// The members `appAppleId` and `environment`; production where only the app is stated.
    mutating func lane(_ slot: inout Lane?)
}

extension ValueCoder where Self: ~Copyable {
    @inline(__always)
    mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value
    ) {
        member(name, &slot, atMost: nil)
    }

    @inline(__always)
    mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value?
    ) {
        member(name, &slot, atMost: nil)
    }

    @inline(__always)
    mutating func member<Value: WireValue & Equatable>(
        _ name: StaticString,
        _ slot: inout Value,
        default: Value,
        isAlwaysWritten: Bool = false
    ) {
        member(
            name,
            &slot,
            default: `default`,
            isAlwaysWritten: isAlwaysWritten,
            atMost: nil
        )
    }
}

/// An object whose members are declared once.
package protocol WireMessage: WireValue {
    /// What a reader fills: every required member is set, or nothing is read.
    static var blank: Self { get }

    mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C)
}

extension WireMessage {
    @inline(__always)
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Self {
        var message = blank
        try scanner.readMembers { message.members(&$0) }
        return message
    }

    @inline(__always)
    static func read(value: Span<UInt8>) throws(WireFault) -> Self {
        try JSONScanner.scan(value) { (scanner) throws(WireFault) in
            try read(&scanner, atMost: nil)
        }
    }

    @inline(__always)
    package func write(by writer: inout JSONWriter) {
        var message = self
        writer.beginObject()
        message.members(&writer)
        writer.endObject()
    }

    @inline(__always)
    func append(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { write(by: &$0) }
    }
}
