/// Appends JSON to an arena, without white space; escapes no more than RFC 8259 asks for.
///
///     JSONWriter.append(to: &arena) { writer in
///         writer.beginObject()
///         writer.field("receivedAt", receivedAt.milliseconds)
///         writer.endObject()
///     }
///
/// It writes the commas itself; the caller must end every container that it starts.
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []
    /// Whether a comma must stand before the next name or element.
    private var needsComma = false
    /// A sign, 19 digits, and what their last word overwrites.
    static let integerByteCountMax = 27

    package init() {}

    /// Appends to what an arena holds already; its bytes are moved in and out, never copied.
    ///
    /// It `isContinued` where the arena ends with a member of an object that has not ended.
    package static func append(
        to arena: inout [UInt8],
        isContinued: Bool = false,
        _ body: (inout JSONWriter) -> Void
    ) {
        var writer = JSONWriter()
        writer.needsComma = isContinued
        swap(&writer.bytes, &arena)
        body(&writer)
        swap(&writer.bytes, &arena)
    }

    // MARK: Structure

    package mutating func beginObject() {
        begin(UInt8(ascii: "{"))
    }

    package mutating func endObject() {
        end(UInt8(ascii: "}"))
    }

    package mutating func beginArray() {
        begin(UInt8(ascii: "["))
    }

    package mutating func endArray() {
        end(UInt8(ascii: "]"))
    }

    private mutating func begin(_ bracket: UInt8) {
        unsafe put(atMost: 1) { unsafe $0.append(bracket) }
        needsComma = false
    }

    private mutating func end(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    /// A member's name; its value comes next.
    ///
    /// - Parameter name: a name of ours, without anything to escape.
    package mutating func name(_ name: StaticString) {
        unsafe put(atMost: name.utf8CodeUnitCount + 3) { unsafe $0.append(name: name) }
        needsComma = false
    }

    /// A member's name that is not fixed.
    package mutating func name(text: String) {
        string(text)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Room behind the bytes, where nothing is checked.
    @unsafe struct Tail {
        private let start: UnsafeMutablePointer<UInt8>
        private var next: UnsafeMutablePointer<UInt8>

        init(start: UnsafeMutablePointer<UInt8>) {
            unsafe self.start = start
            unsafe next = start
        }

        /// Bytes written.
        var count: Int { unsafe next - start }

        @inline(__always)
        mutating func append(_ byte: UInt8) {
            unsafe next.pointee = byte
            unsafe next += 1
        }

        @inline(__always)
        mutating func append(_ text: UnsafeBufferPointer<UInt8>) {
            if let start = text.baseAddress {
                unsafe next.update(from: start, count: text.count)
                unsafe next += text.count
            }
        }

        @inline(__always)
        mutating func append(_ text: StaticString) {
            unsafe append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        }

        /// A name of ours and its colon.
        @inline(__always)
        mutating func append(name: StaticString) {
            unsafe append(UInt8(ascii: "\""))
            unsafe append(name)
            unsafe append(UInt8(ascii: "\""))
            unsafe append(UInt8(ascii: ":"))
        }

        /// At most 19 digits and a sign; up to seven bytes behind them are overwritten.
        @inline(__always)
        mutating func append(_ value: Int64) {
            if value < 0 {
                unsafe append(UInt8(ascii: "-"))
            }
            let (high, low) = value.magnitude.quotientAndRemainder(dividingBy: 100_000_000)
            guard high > 0 else {
                return unsafe append(leading: low)
            }
            let (highest, middle) = high.quotientAndRemainder(dividingBy: 100_000_000)
            if highest > 0 {
                unsafe append(leading: highest)
                unsafe append(eight: JSONWriter.digits(of: middle))
            } else {
                unsafe append(leading: middle)
            }
            unsafe append(eight: JSONWriter.digits(of: low))
        }

        /// A number of at most eight digits, without zeros in front.
        @inline(__always)
        private mutating func append(leading number: UInt64) {
            let digits = JSONWriter.digits(of: number)
            let zeroCount = min(digits.trailingZeroBitCount >> 3, 7)
            unsafe append(eight: digits &>> UInt64(8 &* zeroCount))
            unsafe next -= zeroCount
        }

        /// Eight digits, the first in the lowest byte.
        @inline(__always)
        private mutating func append(eight digits: UInt64) {
            let characters = digits | 0x3030_3030_3030_3030
            unsafe UnsafeMutableRawPointer(next).storeBytes(
                of: characters.littleEndian,
                as: UInt64.self
            )
            unsafe next += 8
        }
    }

    /// The eight digits of a number below 100,000,000, one a byte, the first in the lowest.
    ///
    /// Halves, quarters and eighths of the number are divided beside one another in one word: by 100 as
    /// times 10486 / 2^20, right below 10,000, and by 10 as times 103 / 2^10, right below 100.
    @inline(__always)
    private static func digits(of number: UInt64) -> UInt64 {
        let halves = number / 10_000 | (number % 10_000) &<< 32
        let hundreds = ((halves &* 10_486) &>> 20) & 0x0000_007f_0000_007f
        let quarters = hundreds | (halves &- hundreds &* 100) &<< 16
        let tens = ((quarters &* 103) &>> 10) & 0x000f_000f_000f_000f
        return tens | (quarters &- tens &* 10) &<< 8
    }

    /// Appends a comma where one is due and then at most so many bytes: whether there is room is
    /// looked at once and not for every byte.
    @inline(__always)
    mutating func put(atMost countMax: Int, _ write: (inout Tail) -> Void) {
        let needsComma = needsComma
        bytes.append(addingCapacity: countMax + 1) { room in
            unsafe room.withUnsafeMutableBufferPointer { buffer, count in
                guard let start = buffer.baseAddress else {
                    preconditionFailure("room that was asked for is there")
                }
                var tail = unsafe Tail(start: start + count)
                if needsComma {
                    unsafe tail.append(UInt8(ascii: ","))
                }
                unsafe write(&tail)
                unsafe count += tail.count
            }
        }
    }

    // MARK: Values

    package mutating func string(_ text: String) {
        string(utf8: text.utf8.span)
    }

    /// A text as bytes, which must be UTF-8.
    ///
    /// - Returns: where its content lies among ``bytes``, escapes included.
    @discardableResult
    package mutating func string(utf8 text: Span<UInt8>) -> Range<Int> {
        unsafe text.withUnsafeBufferPointer { text in
            let end = unsafe Self.cleanEnd(text, from: 0)
            let quote = UInt8(ascii: "\"")
            if end == text.count {
                unsafe put(atMost: end + 2) { tail in
                    unsafe tail.append(quote)
                    unsafe tail.append(text)
                    unsafe tail.append(quote)
                }
                needsComma = true
                return bytes.count - 1 - end..<bytes.count - 1
            }
            unsafe put(atMost: 1) { unsafe $0.append(quote) }
            let contentStart = bytes.count
            var (start, index) = (0, end)
            while index < text.count {
                unsafe bytes.append(contentsOf: text[start..<index])
                unsafe escape(text[index])
                start = index + 1
                index = unsafe Self.cleanEnd(text, from: start)
            }
            unsafe bytes.append(contentsOf: text[start..<index])
            let contentEnd = bytes.count
            bytes.append(quote)
            needsComma = true
            return contentStart..<contentEnd
        }
    }

    package mutating func integer(_ value: Int64) {
        unsafe put(atMost: Self.integerByteCountMax) { unsafe $0.append(value) }
        needsComma = true
    }

    package mutating func bool(_ value: Bool) {
        literal(value ? "true" : "false")
    }

    /// A value that is JSON already, or members with their names.
    package mutating func raw(_ json: [UInt8]) { raw(json.span) }

    /// A value that is JSON already, or members with their names.
    package mutating func raw(_ json: Span<UInt8>) {
        unsafe json.withUnsafeBufferPointer { json in
            unsafe put(atMost: json.count) { unsafe $0.append(json) }
        }
        needsComma = true
    }

    private mutating func literal(_ text: StaticString) {
        unsafe put(atMost: text.utf8CodeUnitCount) { unsafe $0.append(text) }
        needsComma = true
    }

    // MARK: Members; one that is nil is not written

    package mutating func field(_ name: StaticString, _ text: String?) {
        guard let text else {
            return
        }
        self.name(name)
        string(text)
    }

    @discardableResult
    package mutating func field(_ name: StaticString, utf8 text: Span<UInt8>) -> Range<Int> {
        self.name(name)
        return string(utf8: text)
    }

    package mutating func field(_ name: StaticString, _ value: Int64?) {
        guard let value else {
            return
        }
        let countMax = name.utf8CodeUnitCount + 3 + Self.integerByteCountMax
        unsafe put(atMost: countMax) { tail in
            unsafe tail.append(name: name)
            unsafe tail.append(value)
        }
        needsComma = true
    }

    package mutating func field(_ name: StaticString, _ value: Int) {
        field(name, Int64(value))
    }

    package mutating func field(_ name: StaticString, _ value: Bool) {
        self.name(name)
        bool(value)
    }

    package mutating func field(_ name: StaticString, raw json: [UInt8]) {
        field(name, raw: json.span)
    }

    package mutating func field(_ name: StaticString, raw json: Span<UInt8>) {
        self.name(name)
        raw(json)
    }

    // MARK: Escapes

    /// The first byte from `start` on that must be escaped, or the end.
    private static func cleanEnd(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = unsafe JSONString.plainEnd(text, from: start)
        while unsafe index < text.count && text[index] >= 0x80 {
            index = unsafe JSONString.plainEnd(text, from: index + 1)
        }
        return index
    }

    private mutating func escape(_ byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(byte)
        case 0x08: bytes.append(UInt8(ascii: "b"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case 0x0a: bytes.append(UInt8(ascii: "n"))
        case 0x0c: bytes.append(UInt8(ascii: "f"))
        case 0x0d: bytes.append(UInt8(ascii: "r"))
        default:
            bytes.append(contentsOf: [UInt8(ascii: "u"), UInt8(ascii: "0"), UInt8(ascii: "0")])
            bytes.append(UInt8(ascii: "0") + byte >> 4)
            let low = byte & 0x0f
            bytes.append(low < 10 ? UInt8(ascii: "0") + low : UInt8(ascii: "a") + low - 10)
        }
    }
}
