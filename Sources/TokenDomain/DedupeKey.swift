/// The first half of a SHA-256, which stands for a customer's token or for a customer's period.
///
/// So ten million of them lie close together on the disk, and no text has to be kept. Two
/// different subjects share one key with odds of 10^-25 at ten million keys.
package struct DedupeKey: Hashable, Sendable {
    package static let byteCount = 16

    /// Bytes 0 to 7, the first as the highest.
    package let high: UInt64
    /// Bytes 8 to 15.
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The first sixteen bytes of a hash.
    ///
    /// - Parameter bytes: at least sixteen.
    package init(_ bytes: Span<UInt8>) {
        precondition(bytes.count >= Self.byteCount, "a key has sixteen bytes")
        var high: UInt64 = 0
        var low: UInt64 = 0
        for index in 0..<8 {
            high = high << 8 | UInt64(bytes[index])
            low = low << 8 | UInt64(bytes[index + 8])
        }
        self.init(high: high, low: low)
    }

    /// Appends the sixteen bytes.
    package func write(to arena: inout [UInt8]) {
        unsafe withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
    }

    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }
}

/// What is hashed into a key.
///
/// Every field of variable length stands behind its length,
/// and each kind of key begins with its own byte: no two subjects have the same material.
package enum DedupeMaterial {
    private static let identity: UInt8 = 1
    private static let period: UInt8 = 2

    /// Appends the material of "this customer's token of this id".
    ///
    /// - Parameters:
    ///   - externalPurchaseID: UTF-8.
    ///   - customer: empty where the token names none.
    ///   - arena: grows by the material.
    package static func appendIdentity(
        externalPurchaseID: Span<UInt8>,
        customer: Span<UInt8>,
        to arena: inout [UInt8]
    ) {
        arena.append(identity)
        appendField(customer, to: &arena)
        appendField(externalPurchaseID, to: &arena)
    }

    /// Appends the material of "this customer's tokens of this period".
    ///
    /// - Parameters:
    ///   - value: the period.
    ///   - customer: not empty; without a customer there is no period.
    ///   - arena: grows by the material.
    package static func appendPeriod(
        _ value: TokenPeriod,
        customer: Span<UInt8>,
        to arena: inout [UInt8]
    ) {
        precondition(!customer.isEmpty, "a period belongs to a customer")
        arena.append(period)
        appendField(customer, to: &arena)
        arena.append(value.environment == .production ? 0 : 1)
        arena.append(value.typeByte)
        append(UInt64(bitPattern: value.appAppleID), to: &arena)
        append(UInt64(bitPattern: value.creation.milliseconds), to: &arena)
        append(UInt64(bitPattern: value.expiration.milliseconds), to: &arena)
    }

    private static func appendField(_ bytes: Span<UInt8>, to arena: inout [UInt8]) {
        append(UInt64(bytes.count), to: &arena)
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
    }

    private static func append(_ word: UInt64, to arena: inout [UInt8]) {
        unsafe withUnsafeBytes(of: word.littleEndian) { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
    }
}
