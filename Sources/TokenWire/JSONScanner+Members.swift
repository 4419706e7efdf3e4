package import TokenDomain

/// Reading by the declared members of a message.
extension JSONScanner {
    /// What was taken of an object whose members are being read.
    struct Members {
        /// How many an object may declare: each has a bit.
        static let countMax = 64

        /// Whether the member at hand was one of the declared ones.
        var isTaken = false
        /// Whether the object has ended: only what is missing is looked for.
        var hasEnded = false
        /// The place of the next member among the declared ones.
        var place: UInt64 = 0
        /// A bit for the place of each that stood there, and of each that had a value.
        var seen: UInt64 = 0
        var filled: UInt64 = 0
        /// The first one, thrown by ``takeMember(_:)``.
        var fault: WireFault?
        /// Members of which a slot is made when the object has ended.
        var appAppleID: Int64?
        var environment: AppleEnvironment?
        var role: Role?
        var primary: TokenID?

        /// ``TokenRole`` without the primary of a duplicate.
        enum Role: String, WireValue {
            case primary, duplicate, seen
        }

        /// Passes a declared member when the object has ended.
        @inline(__always)
        mutating func end(isRequired: Bool, _ name: StaticString) {
            if isRequired, filled & (1 &<< place) == 0, fault == nil {
                fault = .missing(field: "\(name)")
            }
            place &+= 1
        }

        mutating func start() {
            isTaken = hasEnded
            place = 0
            fault = nil
        }
    }

    /// Reads one whole text that is an object.
    ///
    /// What is lent the scanner passes the declared members: for every member of the text, and once at
    /// its end.
    @inline(__always)
    static func scanMembers(
        _ text: Span<UInt8>,
        _ declared: (inout JSONScanner) -> Void
    ) throws(WireFault) {
        try scan(text) { (scanner) throws(WireFault) in
            try scanner.readMembers(declared)
        }
    }

    /// As ``scanMembers(_:_:)``, for the object that is next.
    ///
    /// What `recover` is lent is a fault of a member, and the scanner before its value: it may look at
    /// that, which is skipped then, or throw. To skip what is not JSON throws in any case.
    @inline(__always)
    mutating func readMembers(
        _ declared: (inout JSONScanner) -> Void,
        orElse recover: (WireFault, inout JSONScanner) throws(WireFault) -> Void = {
            (fault, _) throws(WireFault) in throw fault
        }
    ) throws(WireFault) {
        let outer = members
        members = Members()
        defer { members = outer }
        try beginObject()
        // One place passes the declared members, also at the end: they are inlined there.
        repeat {
            members.hasEnded = try nextKey() == nil
            let start = position
            if let fault = takeMember(declared) {
                position = start
                try recover(fault, &self)
                position = start
                members.isTaken = members.hasEnded
            }
            if !members.isTaken {
                try skip()
            }
        } while !members.hasEnded
    }

    /// Takes the member at hand, if it is one of the declared ones; otherwise it is still unread.
    @inline(__always)
    private mutating func takeMember(_ declared: (inout JSONScanner) -> Void) -> WireFault? {
        members.start()
        declared(&self)
        return members.fault
    }

    /// Reads the value of a member, null or not, if that has this name; what is lent is the member's bit.
    @inline(__always)
    private mutating func takeAny(
        _ name: StaticString,
        isRequired: Bool = false,
        _ read: (UInt64, inout JSONScanner) throws(WireFault) -> Void
    ) {
        guard !members.isTaken else {
            // Of what follows the one that was taken only the end of the object asks.
            if members.hasEnded {
                members.end(isRequired: isRequired, name)
            }
            return
        }
        let place = members.place
        members.place = place &+ 1
        // Where this is not inlined, no key is made for a name of another length.
        guard field.byteCount == name.utf8CodeUnitCount,
            field == JSONKey(stringLiteral: name)
        else {
            return
        }
        members.isTaken = true
        do throws(WireFault) {
            try read(1 &<< place, &self)
        } catch {
            members.fault = error
        }
    }

    /// Reads the value of a member, if that has this name and is not null.
    @inline(__always)
    mutating func take(
        _ name: StaticString,
        isRequired: Bool = false,
        _ read: (inout JSONScanner) throws(WireFault) -> Void
    ) {
        takeAny(name, isRequired: isRequired) { (bit, scanner) throws(WireFault) in
            let isFirstTime = scanner.members.seen & bit == 0
            scanner.members.seen |= bit
            if try scanner.isPresent(isFirstTime) {
                scanner.members.filled |= bit
                try read(&scanner)
            }
        }
    }
}

extension JSONScanner: ValueCoder {
    @inline(__always)
    package mutating func text(
        _ name: StaticString,
        _ slot: inout String?,
        atMost limit: TextLimit?
    ) {
        member(name, &slot, atMost: limit)
    }

    @inline(__always)
    package mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
        member(name, &slot, atMost: nil)
    }

    package mutating func environment(of id: String?) {}

    @inline(__always)
    package mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value,
        atMost limit: TextLimit?
    ) {
        take(name, isRequired: true) { (scanner) throws(WireFault) in
            slot = try Value.read(&scanner, atMost: limit)
        }
    }

    @inline(__always)
    package mutating func member<Value: WireValue>(
        _ name: StaticString,
        _ slot: inout Value?,
        atMost limit: TextLimit?
    ) {
        take(name) { (scanner) throws(WireFault) in
            slot = try Value.read(&scanner, atMost: limit)
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
        take(name) { (scanner) throws(WireFault) in
            slot = try Value.read(&scanner, atMost: limit)
        }
    }

    package mutating func member(
        _ name: StaticString,
        raw kind: Kind,
        _ slot: inout String?
    ) {
        take(name) { (scanner) throws(WireFault) in
            slot = String(decoding: try scanner.raw(kind), as: UTF8.self)
        }
    }

    package mutating func member(
        _ name: StaticString,
        raw kind: Kind,
        _ slot: inout String
    ) {
        take(name, isRequired: true) { (scanner) throws(WireFault) in
            slot = String(decoding: try scanner.raw(kind), as: UTF8.self)
        }
    }

    @inline(__always)
    package mutating func lenient(_ name: StaticString, _ slot: inout String?) {
        takeAny(name) { (_, scanner) throws(WireFault) in
            slot = try scanner.stringIfAny()
        }
    }

    @inline(__always)
    package mutating func lenient(_ name: StaticString, _ slot: inout Int64?) {
        takeAny(name) { (_, scanner) throws(WireFault) in
            slot = try scanner.integerIfAny()
        }
    }

    package mutating func environment(statedFor id: TokenID) {
        takeEnvironment()
        if members.hasEnded, let stated = members.environment, stated != id.environment {
            members.fault = members.fault ?? .outOfRange(field: "environment")
        }
    }

    @inline(__always)
    package mutating func environment(
        _ slot: inout AppleEnvironment,
        orOf id: TokenID?
    ) {
        takeEnvironment()
        if members.hasEnded {
            slot = members.environment ?? id?.environment ?? .production
        }
    }

    package mutating func role(_ slot: inout TokenRole?, atMost limit: TextLimit?) {
        take("role") { (scanner) throws(WireFault) in
            scanner.members.role = try .read(&scanner, atMost: nil)
        }
        take("primaryExternalPurchaseId") { (scanner) throws(WireFault) in
            scanner.members.primary = try .read(&scanner, atMost: limit)
        }
        guard members.hasEnded, let role = members.role else {
            return
        }
        switch (role, members.primary) {
        case (.primary, _): slot = .primary
        case (.duplicate, let primary?): slot = .duplicate(of: primary)
        case (.duplicate, nil):
            members.fault = members.fault ?? .missing(field: "primaryExternalPurchaseId")
        case (.seen, _): slot = .seen
        }
    }

    package mutating func lane(_ slot: inout Lane?) {
        take("appAppleId") { (scanner) throws(WireFault) in
            scanner.members.appAppleID = try scanner.integer()
        }
        takeEnvironment()
        if members.hasEnded, let appAppleID = members.appAppleID {
            slot = Lane(
                appAppleID: appAppleID,
                environment: members.environment ?? .production
            )
        }
    }

    @inline(__always)
    private mutating func takeEnvironment() {
        take("environment") { (scanner) throws(WireFault) in
            scanner.members.environment = try .read(&scanner, atMost: nil)
        }
    }
}
