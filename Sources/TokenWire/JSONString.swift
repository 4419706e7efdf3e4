internal import CText

/// The inside of JSON strings: what may stand there, and what it means.
@safe
enum JSONString {
    /// The first byte from `start` on that is not plain: a quote, a backslash, a control character
    /// or the first of a non-ASCII scalar; or the end.
    static func plainEnd(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        unsafe ctext_plain_end(bytes.baseAddress, start, bytes.count)
    }

    /// The end of the escape that starts at `start`, a surrogate pair taken as one; nil where it is
    /// none, or a lone surrogate.
    static func escapeEnd(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        guard start + 1 < bytes.count else {
            return nil
        }
        switch unsafe bytes[start + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"),
            UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return start + 2
        case UInt8(ascii: "u"):
            guard let unit = unsafe codeUnit(bytes, at: start) else {
                return nil
            }
            switch unit {
            case 0xd800...0xdbff:
                guard let low = unsafe codeUnit(bytes, at: start + 6), 0xdc00...0xdfff ~= low else {
                    return nil
                }
                return start + 12
            case 0xdc00...0xdfff:
                return nil
            default:
                return start + 6
            }
        default:
            return nil
        }
    }

    /// The code unit of a `\uXXXX` at `start`; nil where there is none.
    private static func codeUnit(_ bytes: UnsafeBufferPointer<UInt8>, at start: Int) -> UInt16? {
        guard start + 6 <= bytes.count, unsafe bytes[start] == UInt8(ascii: "\\"),
            unsafe bytes[start + 1] == UInt8(ascii: "u")
        else {
            return nil
        }
        var unit: UInt16 = 0
        for index in start + 2..<start + 6 {
            guard let digit = unsafe hexDigit(bytes[index]) else {
                return nil
            }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    /// The value of a hexadecimal digit of either case.
    static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// The end of the non-ASCII scalar at `start`; nil where it is not UTF-8: overlong forms,
    /// surrogates and what lies above U+10FFFF are not (Unicode, table 3-7).
    static func scalarEnd(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
        let left = bytes.count - start
        let first = unsafe bytes[start]
        let second = unsafe left > 1 ? bytes[start + 1] : 0
        let byteCount: Int
        let allowed: ClosedRange<UInt8>
        switch first {
        case 0xc2...0xdf: (byteCount, allowed) = (2, 0x80...0xbf)
        case 0xe0: (byteCount, allowed) = (3, 0xa0...0xbf)
        case 0xed: (byteCount, allowed) = (3, 0x80...0x9f)
        case 0xe1...0xef: (byteCount, allowed) = (3, 0x80...0xbf)
        case 0xf0: (byteCount, allowed) = (4, 0x90...0xbf)
        case 0xf1...0xf3: (byteCount, allowed) = (4, 0x80...0xbf)
        case 0xf4: (byteCount, allowed) = (4, 0x80...0x8f)
        default: return nil
        }
        guard left >= byteCount, allowed ~= second else {
            return nil
        }
        for index in 2..<max(byteCount, 2) {
            guard unsafe bytes[start + index] & 0xc0 == 0x80 else {
                return nil
            }
        }
        return start + byteCount
    }

    /// Writes what a validated content means; never longer than the content, and each byte is read
    /// before one is written over it, so both may be the same memory.
    ///
    /// - Returns: the count of bytes written.
    static func unescape(
        _ content: UnsafeBufferPointer<UInt8>,
        into target: UnsafeMutableBufferPointer<UInt8>
    ) -> Int {
        var source = 0
        var count = 0
        while source < content.count {
            let byte = unsafe content[source]
            guard byte == UInt8(ascii: "\\") else {
                unsafe target[count] = byte
                count += 1
                source += 1
                continue
            }
            let letter = unsafe content[source + 1]
            guard letter == UInt8(ascii: "u") else {
                unsafe target[count] = meaning(of: letter)
                count += 1
                source += 2
                continue
            }
            var scalar = UInt32(unsafe codeUnit(content, at: source) ?? 0)
            source += 6
            if 0xd800...0xdbff ~= scalar {
                let low = UInt32(unsafe codeUnit(content, at: source) ?? 0)
                scalar = 0x10000 + (scalar - 0xd800) << 10 + (low - 0xdc00)
                source += 6
            }
            for unit in UTF8.encode(Unicode.Scalar(scalar) ?? "\u{fffd}") ?? .init() {
                unsafe target[count] = unit
                count += 1
            }
        }
        return count
    }

    private static func meaning(of letter: UInt8) -> UInt8 {
        switch letter {
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0c
        case UInt8(ascii: "n"): 0x0a
        case UInt8(ascii: "r"): 0x0d
        case UInt8(ascii: "t"): 0x09
        default: letter
        }
    }
}
