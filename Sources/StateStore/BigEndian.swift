/// Numbers in keys of a store: ordered as bytes as they are as numbers, negative ones too.
package enum BigEndian {
    package static func bytes(_ number: Int64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(8)
        append(number, to: &bytes)
        return bytes
    }

    package static func append(_ number: Int64, to bytes: inout [UInt8]) {
        let ordered = (UInt64(bitPattern: number) ^ (1 << 63)).bigEndian
        unsafe withUnsafeBytes(of: ordered) { unsafe bytes.append(contentsOf: $0) }
    }

    /// Of the eight bytes from there on.
    package static func number(_ bytes: [UInt8], at start: Int) -> Int64 {
        number(bytes[...], at: start)
    }

    /// Of the eight bytes from there on.
    package static func number(_ bytes: ArraySlice<UInt8>, at start: Int) -> Int64 {
        var ordered: UInt64 = 0
        for index in start..<start + 8 {
            ordered = ordered << 8 | UInt64(bytes[index])
        }
        return Int64(bitPattern: ordered ^ (1 << 63))
    }
}
