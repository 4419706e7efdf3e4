/// The text of a token: what is trimmed, and how long it may be.
enum TokenText {
    /// The bytes without outer white space: the ASCII blanks, tabs and line ends.
    static func trimmed(_ text: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        var start = 0
        var end = text.count
        while unsafe start < end && isBlank(text[start]) {
            start += 1
        }
        while unsafe end > start && isBlank(text[end - 1]) {
            end -= 1
        }
        return unsafe UnsafeBufferPointer(rebasing: text[start..<end])
    }

    /// Space, tab, line feed, vertical tab, form feed, carriage return.
    static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || 0x09...0x0d ~= byte
    }
}
