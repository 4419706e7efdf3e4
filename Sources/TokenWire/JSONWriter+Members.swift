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

    package mutating func field<Value: WireValue>(_ name: StaticString, _ value: Value?) {
        if let value {
            self.name(name)
            value.write(by: &self)
        }
    }

    @inline(__always)
    package mutating func member<Value: WireValue & Equatable>(
        _ name: StaticString,
        _ slot: inout Value,
        default: Value,
        isAlwaysWritten: Bool,
        atMost limit: TextLimit?
    ) {
        if isAlwaysWritten || slot != `default` {
            member(name, &slot, atMost: limit)
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

    package mutating func environment(
        _ slot: inout AppleEnvironment,
        orOf id: TokenID?
    ) {
        field("environment", slot.rawValue)
    }

    package mutating func role(_ slot: inout TokenRole?, atMost limit: TextLimit?) {
        field("role", slot?.text)
        if case .duplicate(let primary) = slot {
            field("primaryExternalPurchaseId", primary)
        }
    }

    package mutating func lane(_ slot: inout Lane?) {
        field("appAppleId", slot?.appAppleID)
        field("environment", slot?.environment.rawValue)
    }
}
