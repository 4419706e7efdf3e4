package import TokenDomain

/// Writing by the declared members of a message; one that is nil is not written.
extension JSONWriter: ValueCoder {
    @inline(__always)
    package mutating func text(
        _ name: StaticString,
        _ slot: inout String?,
        atMost limit: TextLimit?
    ) {
        field(name, slot)
    }

    @inline(__always)
    package mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
        field(name, slot)
    }

    @inline(__always)
    package mutating func environment(of id: String?) {
        field("environment", id.map { TokenID($0).environment.rawValue })
    }

    @inline(__always)
    package mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value,
        atMost limit: TextLimit?
    ) {
        self.name(name)
        slot.write(by: &self)
    }

    @inline(__always)
    package mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value?,
        atMost limit: TextLimit?
    ) {
        field(name, slot)
    }

    mutating func field<Value: WireValue>(_ name: StaticString, _ value: Value?) {
        if let value {
            self.name(name)
            value.write(by: &self)
        }
    }

    @inline(__always)
    package mutating func list<Element: WireValue>(
        _ name: StaticString,
        _ slot: inout [Element],
        atMost limit: TextLimit?,
        isWrittenEmpty: Bool
    ) {
        if isWrittenEmpty || !slot.isEmpty {
            member(name, &slot, atMost: limit)
        }
    }

    package mutating func count(_ name: StaticString, _ slot: inout Int) {
        if slot > 0 {
            field(name, slot)
        }
    }

    package mutating func member(
        _ name: StaticString,
        raw kind: JSONScanner.Kind,
        _ slot: inout String?
    ) {
        if let slot {
            field(name, raw: slot.utf8.span)
        }
    }

    package mutating func member(
        _ name: StaticString,
        raw kind: JSONScanner.Kind,
        _ slot: inout String
    ) {
        field(name, raw: slot.utf8.span)
    }

    package mutating func environment(statedFor id: TokenID) {
        field("environment", id.environment.rawValue)
    }

    package mutating func lane(_ slot: inout Lane?) {
        field("appAppleId", slot?.appAppleID)
        field("environment", slot?.environment.rawValue)
    }
}
