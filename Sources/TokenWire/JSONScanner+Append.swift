package import TokenDomain

extension JSONScanner {
    /// A string, unescaped, at the end of an arena: for readers that take no memory per field.
    ///
    /// - Returns: where it lies; nil where the value is null, which counts as absent.
    /// - Throws: ``WireFault/repeated(field:)`` where the field was read before,
    ///   ``WireFault/tooLong(field:byteCountMax:)`` beyond the limit; without one the text is state
    ///   of our own.
    package mutating func appendString(
        to arena: inout [UInt8],
        isFirstTime: Bool,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Range<Int>? {
        guard isFirstTime else {
            throw .repeated(field: fieldName)
        }
        switch try peekKind() {
        case .null:
            _ = try takeNull()
            return nil
        case .string:
            break
        default:
            throw .wrongType(field: fieldName)
        }
        let string = try takeString()
        let start = arena.count
        unsafe arena.append(contentsOf: bytes[string.start..<string.end])
        if string.hasEscape {
            let count = unsafe arena.withUnsafeMutableBufferPointer { arena in
                let content = unsafe UnsafeMutableBufferPointer(rebasing: arena[start...])
                return unsafe JSONString.unescape(UnsafeBufferPointer(content), into: content)
            }
            arena.removeLast(arena.count - start - count)
        }
        guard let limit, arena.count - start > limit.byteCountMax else {
            return start..<arena.count
        }
        throw .tooLong(field: fieldName, byteCountMax: limit.byteCountMax)
    }
}
