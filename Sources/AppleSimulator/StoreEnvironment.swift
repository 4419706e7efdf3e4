/// Milliseconds since 1970, UTC: every time in Apple's interfaces except those inside a JWT.
package typealias UnixMilliseconds = Int64

/// One of Apple's two separate worlds.
package enum StoreEnvironment: String, CaseIterable, Hashable, Sendable {
    case production
    case sandbox

    /// The documented test is the prefix of seven letters, nothing more.
    package init(externalPurchaseID: String) {
        self = externalPurchaseID.utf8.starts(with: "SANDBOX".utf8) ? .sandbox : .production
    }

    /// As it stands in signed data.
    var signedName: String {
        self == .production ? "Production" : "Sandbox"
    }
}

/// A UUID of 36 characters, either case; 16 bytes.
struct UUIDKey: Hashable, Sendable {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return nil }
        var halves: (UInt64, UInt64) = (0, 0)
        for (index, byte) in bytes.enumerated() {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: return nil
            }
            halves = (halves.0 << 4 | halves.1 >> 60, halves.1 << 4 | UInt64(digit))
        }
        (high, low) = halves
    }

    /// Lower case.
    var text: String {
        let digits = Array("0123456789abcdef".utf8)
        var output: [UInt8] = []
        output.reserveCapacity(36)
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 {
                output.append(UInt8(ascii: "-"))
            }
            let half = index < 16 ? high : low
            output.append(digits[Int(half >> UInt64(60 - 4 * (index % 16)) & 15)])
        }
        return String(decoding: output, as: UTF8.self)
    }
}

/// A seeded generator (SplitMix64): whatever the simulator leaves to chance comes from one.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A version 4 UUID, lower case.
    mutating func nextUUID() -> String {
        let high = next() & ~0xF000 | 0x4000
        let low = next() & ~(0xC000_0000_0000_0000) | 0x8000_0000_0000_0000
        return UUIDKey(high: high, low: low).text
    }
}
