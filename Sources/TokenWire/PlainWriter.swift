internal import TokenDomain

/// A text in memory of its owner's.
@safe
struct LentText {
    let bytes: UnsafeBufferPointer<UInt8>
    /// Where it lies among the bytes of the writer that wrote it.
    fileprivate(set) var place = 0..<0

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe self.bytes = bytes
    }
}

/// Writes the members of an object whose texts have nothing to escape: nobody looks for it, and for room
/// only once.
@safe
struct PlainWriter: MemberCoder {
    private var tail: JSONWriter.Tail
    /// Where among the writer's bytes the tail begins.
    private let start: Int
    /// What stands before the next member: the brace of its object, or a comma.
    private var separator = UInt8(ascii: "{")

    /// Appends an object of the members that are passed to the writer lent.
    ///
    /// The bound is what ``PlainByteCount`` counts for the same members.
    @inline(__always)
    static func append(
        to writer: inout JSONWriter,
        byteCountMax: Int,
        _ members: (inout PlainWriter) -> Void
    ) {
        let start = writer.bytes.count
        unsafe writer.put(atMost: byteCountMax) { tail in
            var plain = unsafe PlainWriter(tail: tail, start: start)
            members(&plain)
            unsafe plain.tail.append(UInt8(ascii: "}"))
            unsafe tail = plain.tail
        }
    }

    private init(tail: JSONWriter.Tail, start: Int) {
        unsafe self.tail = tail
        self.start = start
    }

    @inline(__always)
    mutating func text(_ name: StaticString, _ slot: inout LentText?, atMost limit: TextLimit?) {
        guard let text = slot else {
            return
        }
        append(name: name)
        unsafe tail.append(UInt8(ascii: "\""))
        let first = unsafe start + tail.count
        unsafe tail.append(text.bytes)
        slot?.place = unsafe first..<first + text.bytes.count
        unsafe tail.append(UInt8(ascii: "\""))
    }

    @inline(__always)
    mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
        if let value = slot {
            append(name: name)
            unsafe tail.append(value)
        }
    }

    @inline(__always)
    mutating func environment(of id: LentText?) {
        guard let id else {
            return
        }
        append(name: "environment")
        switch unsafe AppleEnvironment(ofExternalPurchaseID: Span(_unsafeElements: id.bytes)) {
        case .production: unsafe tail.append("\"production\"")
        case .sandbox: unsafe tail.append("\"sandbox\"")
        }
    }

    @inline(__always)
    private mutating func append(name: StaticString) {
        unsafe tail.append(separator)
        unsafe tail.append(name: name)
        separator = UInt8(ascii: ",")
    }
}

/// How many bytes an object takes at most.
struct PlainByteCount: MemberCoder {
    /// The braces of an object, and what the last word of its last number overwrites.
    private(set) var byteCountMax = 2 + JSONWriter.integerByteCountMax

    @inline(__always)
    mutating func text(_ name: StaticString, _ slot: inout LentText?, atMost limit: TextLimit?) {
        if let text = slot {
            unsafe byteCountMax += name.utf8CodeUnitCount + text.bytes.count + 6
        }
    }

    @inline(__always)
    mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
        byteCountMax += name.utf8CodeUnitCount + 4 + JSONWriter.integerByteCountMax
    }

    @inline(__always)
    mutating func environment(of id: LentText?) {
        byteCountMax += 32
    }
}
