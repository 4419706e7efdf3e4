package import TokenDomain

/// Reading the fields of our own messages: null counts as absent, and none may stand twice.
extension JSONScanner {
    /// A text of what is bounded as a whole: a file, the body of a request, state of our own.
    package mutating func fill(_ slot: inout String?) throws(WireFault) {
        guard try isPresent(slot == nil) else {
            return
        }
        slot = try string()
    }

    /// - Throws: ``WireFault/tooLong(field:byteCountMax:)`` beside what ``string()`` throws.
    package mutating func string(atMost limit: TextLimit?) throws(WireFault) -> String {
        let text = try string()
        guard let limit, !limit.holds(text) else {
            return text
        }
        throw .tooLong(field: fieldName, byteCountMax: limit.byteCountMax)
    }

    package mutating func fill(_ slot: inout Int64?) throws(WireFault) {
        guard try isPresent(slot == nil) else {
            return
        }
        slot = try integer()
    }

    /// How often something was: never below zero.
    package mutating func count() throws(WireFault) -> Int {
        guard let value = Int(exactly: try integer()), value >= 0 else {
            throw .outOfRange(field: fieldName)
        }
        return value
    }

    /// An array of so many elements, each of which `element` reads.
    package mutating func tuple(
        of elementCount: Int,
        _ element: (Int, inout JSONScanner) throws(WireFault) -> Void
    ) throws(WireFault) {
        try beginArray()
        var index = 0
        while try nextElement() {
            guard index < elementCount else {
                throw .wrongType(field: fieldName)
            }
            try element(index, &self)
            index += 1
        }
        guard index == elementCount else {
            throw .wrongType(field: fieldName)
        }
    }

    package mutating func fill(_ slot: inout Bool?) throws(WireFault) {
        guard try isPresent(slot == nil) else {
            return
        }
        slot = try bool()
    }

    package mutating func fill(_ slot: inout Timestamp?) throws(WireFault) {
        guard try isPresent(slot == nil) else {
            return
        }
        slot = Timestamp(milliseconds: try integer())
    }

    /// Without a limit: from state of our own, which was read with one.
    package mutating func fill<Value: WireText>(
        _ slot: inout Value?,
        atMost limit: TextLimit?
    ) throws(WireFault) {
        guard try isPresent(slot == nil) else {
            return
        }
        slot = try .read(&self, atMost: limit)
    }

    /// A text that is one of the values of a closed enum.
    package mutating func fill<Value: RawRepresentable<String>>(
        _ slot: inout Value?
    ) throws(WireFault) {
        guard try isPresent(slot == nil) else {
            return
        }
        guard let value = Value(rawValue: try string()) else {
            throw .outOfRange(field: fieldName)
        }
        slot = value
    }

    /// An integer of 64 bits; nil where the value is anything else.
    package mutating func integerIfAny() throws(WireFault) -> Int64? {
        guard try peekKind() == .number else {
            try skip()
            return nil
        }
        guard case .integer(let value) = try takeNumber() else {
            return nil
        }
        return value
    }

    /// A string; nil where the value is anything else.
    mutating func stringIfAny() throws(WireFault) -> String? {
        guard try peekKind() == .string else {
            try skip()
            return nil
        }
        return try string()
    }

    mutating func isPresent(_ isFirstTime: Bool) throws(WireFault) -> Bool {
        guard isFirstTime else {
            throw .repeated(field: fieldName)
        }
        return !(try takeNull())
    }

    /// The value of a required field.
    ///
    /// Inlinable, for without its caller's types it costs a look-up of them in each call.
    @inlinable
    package static func require<Value>(
        _ value: Value?,
        _ field: StaticString
    ) throws(WireFault) -> Value {
        guard let value else {
            throw .missing(field: "\(field)")
        }
        return value
    }
}
