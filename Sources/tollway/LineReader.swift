internal import Glibc

/// Lines of standard input, each bounded, whatever comes in.
struct LineReader {
    private let byteCountMax: Int
    private var buffer: [UInt8] = []
    private var position = 0
    private var isAtEnd = false

    /// - Parameter byteCountMax: what a line has beyond it is dropped, down to one byte more.
    init(byteCountMax: Int) {
        self.byteCountMax = byteCountMax
    }

    /// Whether another whole line was read already.
    var hasMoreAtHand: Bool { buffer[position...].contains(UInt8(ascii: "\n")) }

    /// The next line without its end (LF or CRLF); nil at the end of the input.
    ///
    /// - Throws: exit 2 where standard input cannot be read.
    mutating func next() throws(CommandFailure) -> [UInt8]? {
        var line: [UInt8] = []
        var hasBegun = false
        while true {
            if position == buffer.count {
                guard try fill() else {
                    return hasBegun ? line : nil
                }
            }
            hasBegun = true
            let rest = buffer[position...]
            let end = rest.firstIndex(of: UInt8(ascii: "\n"))
            let part = rest[..<(end ?? rest.endIndex)]
            line += part.prefix(byteCountMax + 1 - line.count)
            position = end.map { $0 + 1 } ?? buffer.count
            if end != nil {
                if line.last == UInt8(ascii: "\r") {
                    line.removeLast()
                }
                return line
            }
        }
    }

    private mutating func fill() throws(CommandFailure) -> Bool {
        guard !isAtEnd else {
            return false
        }
        buffer = [UInt8](repeating: 0, count: 64 << 10)
        position = 0
        var count: Int
        repeat {
            count = unsafe buffer.withUnsafeMutableBytes { bytes in
                unsafe read(STDIN_FILENO, bytes.baseAddress, bytes.count)
            }
        } while count < 0 && errno == EINTR
        guard count >= 0 else {
            throw .usage("unreadable_input", "standard input cannot be read")
        }
        buffer.removeLast(buffer.count - count)
        isAtEnd = count == 0
        return count > 0
    }
}
