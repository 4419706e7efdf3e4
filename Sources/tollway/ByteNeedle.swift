/// One pattern, looked for after Boyer, Moore and Horspool: from its end, and then as far on as
/// the byte there allows.
struct ByteNeedle {
    private let bytes: [UInt8]
    private let steps: [Int]

    /// The pattern is not empty.
    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        var steps = [Int](repeating: bytes.count, count: 256)
        for (index, byte) in bytes.dropLast().enumerated() {
            steps[Int(byte)] = bytes.count - 1 - index
        }
        self.steps = steps
    }

    func isIn(_ value: Span<UInt8>) -> Bool {
        var end = bytes.count - 1
        while end < value.count {
            var index = bytes.count - 1
            while value[end - (bytes.count - 1 - index)] == bytes[index] {
                guard index > 0 else {
                    return true
                }
                index -= 1
            }
            end += steps[Int(value[end])]
        }
        return false
    }
}
