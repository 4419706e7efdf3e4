extension JSONScanner {
    /// A string, unescaped, at the end of an arena: for readers that take no memory per field.
    ///
    /// - Returns: where it lies; nil where the value is null, which counts as absent.
    /// - Throws: ``WireFault/repeated(field:)`` where the field was read before.
    package mutating func appendString(
        to arena: inout [UInt8],
        isFirstTime: Bool
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
        return start..<arena.count
    }
}
