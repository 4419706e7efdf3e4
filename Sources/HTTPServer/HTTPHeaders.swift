/// Headers of an answer, put together in the form in which they are sent.
///
/// Whoever answers often appends to headers that were made before.
package struct HTTPHeaders: Sendable {
    /// Name, 0, value, 0, and so on, as C reads them.
    private(set) var flat: [UInt8] = []

    package init(_ headers: [(String, String)] = []) {
        for (name, value) in headers {
            append(name, value)
        }
    }

    /// Neither has a line end or a 0 inside.
    package mutating func append(_ name: String, _ value: String) {
        append(name)
        append(value)
    }

    private mutating func append(_ text: String) {
        let start = flat.count
        flat.append(contentsOf: text.utf8)
        var isOneLine = true
        for index in start..<flat.count {
            let byte = flat[index]
            isOneLine = isOneLine && byte != 0 && byte != 0x0a && byte != 0x0d
        }
        precondition(isOneLine, "a header is one line")
        flat.append(0)
    }

    /// Lends the bytes to C.
    func withFlat<Result>(_ body: (UnsafePointer<CChar>?, Int) -> Result) -> Result {
        unsafe flat.withUnsafeBytes { bytes in
            unsafe body(bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
    }
}
