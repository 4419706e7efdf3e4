/// The objects of a binary property list, looked at before Foundation builds them: it trusts that they
/// are no set, and builds and copies what they hold by calls within calls.
///
/// Source: the form is described in Apple's CFBinaryPList.c.
struct BinaryPropertyList {
    /// An object that is held twice is built once and copied out twice.
    static let nodeCountMax = 1_000_000
    private static let trailerByteCount = 32

    private struct Size {
        /// Containers inside one another.
        var depth = 1
        /// Objects of it, copied out.
        var nodeCount = 1
    }

    private let bytes: [UInt8]
    private let offsetByteCount: Int
    private let referenceByteCount: Int
    private let objectCount: Int
    /// The object that holds all others that are built.
    private let top: Int
    /// Where the places of the objects stand, behind all objects.
    private let table: Int
    /// By object; nil before it was looked at.
    private var sizes: [Size?]
    /// Whether an object is one of those that are being looked at.
    private var isOpen: [Bool]

    /// - Returns: nil where its trailer lies.
    init?(_ bytes: [UInt8]) {
        guard bytes.count > Self.trailerByteCount else {
            return nil
        }
        let end = bytes.count - Self.trailerByteCount
        offsetByteCount = Int(bytes[end + 6])
        referenceByteCount = Int(bytes[end + 7])
        let count = Self.number(in: bytes, at: end + 8, 8)
        let top = Self.number(in: bytes, at: end + 16, 8)
        let table = Self.number(in: bytes, at: end + 24, 8)
        guard (1...8).contains(offsetByteCount), (1...8).contains(referenceByteCount),
            table <= UInt64(end), count <= UInt64(Self.nodeCountMax), top < count,
            count <= (UInt64(end) - table) / UInt64(offsetByteCount)
        else {
            return nil
        }
        self.bytes = bytes
        self.table = Int(table)
        objectCount = Int(count)
        self.top = Int(top)
        sizes = Array(repeating: nil, count: objectCount)
        isOpen = Array(repeating: false, count: objectCount)
    }

    /// Whether of the objects that are built each lies where it should, none is a set, none holds
    /// itself, none is deeper than so many containers, and none is larger, copied out, than
    /// ``nodeCountMax``.
    ///
    /// Objects that nothing holds are not looked at: many may lie at the place of one large list,
    /// while what is held is bounded by ``nodeCountMax``.
    mutating func isSound(depthMax: Int) -> Bool {
        size(of: top, depthLeft: depthMax) != nil
    }

    private static func number(in bytes: [UInt8], at start: Int, _ byteCount: Int) -> UInt64 {
        bytes[start..<start + byteCount].reduce(0) { $0 << 8 | UInt64($1) }
    }

    private mutating func size(of index: Int, depthLeft: Int) -> Size? {
        if let known = sizes[index] {
            return known.depth <= depthLeft ? known : nil
        }
        guard depthLeft > 0, !isOpen[index], let references = references(of: index) else {
            return nil
        }
        isOpen[index] = true
        defer { isOpen[index] = false }
        var size = Size()
        for reference in references {
            guard let part = self.size(of: reference, depthLeft: depthLeft - 1) else {
                return nil
            }
            size.depth = max(size.depth, part.depth + 1)
            size.nodeCount += part.nodeCount
            guard size.nodeCount <= Self.nodeCountMax else {
                return nil
            }
        }
        sizes[index] = size
        return size
    }

    /// What an object holds; nil where it does not lie in the list, or is a set, which no property list
    /// has and which ends Foundation's process on Linux.
    private func references(of index: Int) -> [Int]? {
        let place = table + index * offsetByteCount
        let offset = Self.number(in: bytes, at: place, offsetByteCount)
        guard offset < UInt64(table) else {
            return nil
        }
        let marker = bytes[Int(offset)]
        let perElement: Int
        switch marker & 0xf0 {
        case 0xa0: perElement = 1
        case 0xd0: perElement = 2
        case 0xc0: return nil
        default: return []
        }
        guard let (count, start) = elementCount(marker, behind: Int(offset)) else {
            return nil
        }
        let end = start.addingReportingOverflow(count * perElement * referenceByteCount)
        guard !end.overflow, end.partialValue <= table else {
            return nil
        }
        var references: [Int] = []
        for number in 0..<count * perElement {
            let reference = Self.number(
                in: bytes,
                at: start + number * referenceByteCount,
                referenceByteCount
            )
            guard reference < UInt64(objectCount) else {
                return nil
            }
            references.append(Int(reference))
        }
        return references
    }

    /// How many elements a container has, and where their references begin.
    private func elementCount(_ marker: UInt8, behind offset: Int) -> (count: Int, start: Int)? {
        guard marker & 0x0f == 0x0f else {
            return (Int(marker & 0x0f), offset + 1)
        }
        // An integer object of up to eight bytes follows.
        guard offset + 1 < table, bytes[offset + 1] & 0xf0 == 0x10, bytes[offset + 1] & 0x0f <= 3
        else {
            return nil
        }
        let byteCount = 1 << Int(bytes[offset + 1] & 0x0f)
        let start = offset + 2 + byteCount
        guard start <= table else {
            return nil
        }
        let count = Self.number(in: bytes, at: offset + 2, byteCount)
        return count <= UInt64(Self.nodeCountMax) ? (Int(count), start) : nil
    }
}
