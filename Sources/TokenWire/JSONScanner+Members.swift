package import TokenDomain

/// Reading by the declared members of a message.
extension JSONScanner {
    /// What was taken of an object whose members are being read.
    struct Members {
        /// Whether the member at hand was one of the declared ones.
        var isTaken = false
        /// Whether the object has ended: only what is missing is looked for.
        var hasEnded = false
        /// The next one of the members whose slots do not say whether they were there, and a bit for each
        /// of these that was.
        var index = 0
        var seen: UInt64 = 0
        /// The first one, thrown by ``takeMember(_:)``.
        var fault: WireFault?
        /// Members of which a slot is made when the object has ended.
        var appAppleID: Int64?
        var environment: AppleEnvironment?

        mutating func start() {
            isTaken = hasEnded
            index = 0
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

    @inline(__always)
    mutating func readMembers(_ declared: (inout JSONScanner) -> Void) throws(WireFault) {
        let outer = members
        members = Members()
        try beginObject()
        while try nextKey() != nil {
            if try !takeMember(declared) {
                try skip()
            }
        }
        members.hasEnded = true
        _ = try takeMember(declared)
        members = outer
    }

    /// - Returns: false where the member is none of the declared ones and still unread.
    @inline(__always)
    mutating func takeMember(
        _ declared: (inout JSONScanner) -> Void
    ) throws(WireFault) -> Bool {
        members.start()
        declared(&self)
        if let fault = members.fault {
            throw fault
        }
        return members.isTaken
    }

    @inline(__always)
    private mutating func isNext(_ name: StaticString) -> Bool {
        guard !members.isTaken, field == JSONKey(stringLiteral: name) else {
            return false
        }
        members.isTaken = true
        return true
    }

    /// Reads the value of a member, if that has this name.
    @inline(__always)
    private mutating func take(
        _ name: StaticString,
        _ read: (inout JSONScanner) throws(WireFault) -> Void
    ) {
        guard isNext(name) else {
            return
        }
        do throws(WireFault) {
            try read(&self)
        } catch {
            members.fault = error
        }
    }

    /// Reads the value of a member, if that has this name and is not null.
    @inline(__always)
    private mutating func take(
        _ name: StaticString,
        isFirstTime: Bool,
        _ read: (inout JSONScanner) throws(WireFault) -> Void
    ) {
        take(name) { (scanner) throws(WireFault) in
            if try scanner.isPresent(isFirstTime) {
                try read(&scanner)
            }
        }
    }

    /// As ``take(_:isFirstTime:_:)``, for a member whose slot does not say whether it was there.
    @inline(__always)
    private mutating func take(
        _ name: StaticString,
        isRequired: Bool,
        _ read: (inout JSONScanner) throws(WireFault) -> Void
    ) {
        let bit = UInt64(1) << UInt64(members.index)
        members.index += 1
        let isSeen = members.seen & bit != 0
        if isRequired, members.hasEnded, !isSeen, members.fault == nil {
            members.fault = .missing(field: "\(name)")
        }
        take(name, isFirstTime: !isSeen) { (scanner) throws(WireFault) in
            scanner.members.seen |= bit
            try read(&scanner)
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
        take(name, isFirstTime: slot == nil) { (scanner) throws(WireFault) in
            slot = try Value.read(&scanner, atMost: limit)
        }
    }

    @inline(__always)
    package mutating func list<Element: WireValue>(
        _ name: StaticString,
        _ slot: inout [Element],
        atMost limit: TextLimit?,
        isWrittenEmpty: Bool
    ) {
        take(name, isRequired: false) { (scanner) throws(WireFault) in
            slot = try [Element].read(&scanner, atMost: limit)
        }
    }

    package mutating func count(_ name: StaticString, _ slot: inout Int) {
        take(name, isRequired: false) { (scanner) throws(WireFault) in
            slot = try scanner.count()
        }
    }

    package mutating func member(
        _ name: StaticString,
        raw kind: Kind,
        _ slot: inout String?
    ) {
        take(name, isFirstTime: slot == nil) { (scanner) throws(WireFault) in
            slot = try scanner.raw(kind)
        }
    }

    package mutating func member(
        _ name: StaticString,
        raw kind: Kind,
        _ slot: inout String
    ) {
        take(name, isRequired: true) { (scanner) throws(WireFault) in
            slot = try scanner.raw(kind)
        }
    }

    /// An object or array of anything, its text as it stands.
    private mutating func raw(_ kind: Kind) throws(WireFault) -> String {
        guard try peekKind() == kind else {
            throw .wrongType(field: fieldName)
        }
        return String(decoding: try raw(), as: UTF8.self)
    }

    package mutating func lenient(_ name: StaticString, _ slot: inout String?) {
        take(name) { (scanner) throws(WireFault) in
            slot = try scanner.stringIfAny()
        }
    }

    package mutating func lenient(_ name: StaticString, _ slot: inout Int64?) {
        take(name) { (scanner) throws(WireFault) in
            slot = try scanner.integerIfAny()
        }
    }

    package mutating func environment(statedFor id: TokenID) {
        takeEnvironment()
        if members.hasEnded, let stated = members.environment, stated != id.environment {
            members.fault = members.fault ?? .outOfRange(field: "environment")
        }
    }

    package mutating func lane(_ slot: inout Lane?) {
        take("appAppleId", isFirstTime: members.appAppleID == nil) {
            (scanner) throws(WireFault) in
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

    private mutating func takeEnvironment() {
        take("environment", isFirstTime: members.environment == nil) {
            (scanner) throws(WireFault) in
            scanner.members.environment = try .read(&scanner, atMost: nil)
        }
    }
}
