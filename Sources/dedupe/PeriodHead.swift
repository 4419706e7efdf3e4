internal import TokenDomain

/// What the worker knows of a period as a whole: how many tokens it has, and which is its primary.
///
/// Tokens of a period are counted from 0 in the order of their offsets. The primary is the first that
/// Apple does not refuse: it moves on to a later one, and back to one that Apple knows after all.
struct PeriodHead: Equatable {
    struct Primary: Equatable {
        var index: UInt32
        /// UTF-8.
        var id: [UInt8]
    }

    /// Tokens so far.
    var count: UInt32
    /// Nil where Apple has refused all of them.
    var primary: Primary?

    /// Never occurs in UTF-8, so no id begins with it.
    private static let mark: UInt8 = 0xff
    private static let none = UInt32.max
    private static let prefixByteCount = 9

    var primaryID: TokenID? {
        primary.map { TokenID(String(decoding: $0.id, as: UTF8.self)) }
    }

    init(count: UInt32, primary: Primary?) {
        self.count = count
        self.primary = primary
    }

    // MARK: As an entry

    /// Reads the value of a period's entry.
    ///
    /// A period with one token, and every period that an older version wrote, is the id of its first.
    init(entry: Span<UInt8>) {
        guard !entry.isEmpty, entry[0] == Self.mark else {
            self.init(
                count: 1,
                primary: Primary(index: 0, id: Self.bytes(entry, from: 0))
            )
            return
        }
        precondition(
            entry.count >= Self.prefixByteCount,
            "an entry of the local state is what this worker wrote"
        )
        let index = Self.number(entry, at: 5)
        self.init(
            count: Self.number(entry, at: 1),
            primary: index == Self.none
                ? nil : Primary(index: index, id: Self.bytes(entry, from: Self.prefixByteCount))
        )
    }

    func write(entry arena: inout [UInt8]) {
        if count == 1, let primary {
            return arena.append(contentsOf: primary.id)
        }
        arena.append(Self.mark)
        Self.append(count, to: &arena)
        Self.append(primary?.index ?? Self.none, to: &arena)
        arena.append(contentsOf: primary?.id ?? [])
    }

    var entry: [UInt8] {
        var bytes: [UInt8] = []
        write(entry: &bytes)
        return bytes
    }

    static func append(_ number: UInt32, to arena: inout [UInt8]) {
        for shift in stride(from: 24, through: 0, by: -8) {
            arena.append(UInt8(truncatingIfNeeded: number >> shift))
        }
    }

    static func number(_ bytes: Span<UInt8>, at start: Int) -> UInt32 {
        (start..<start + 4).reduce(0) { $0 << 8 | UInt32(bytes[$1]) }
    }

    static func bytes(_ bytes: Span<UInt8>, from start: Int) -> [UInt8] {
        unsafe bytes.extracting(start..<bytes.count).withUnsafeBufferPointer {
            unsafe Array($0)
        }
    }
}

/// Which token of which period: its place in the order of offsets.
struct PeriodPlace: Equatable {
    var period: DedupeKey
    var index: UInt32
}
