internal import TokenDomain

/// A number for each of many positions: four bytes each, in chunks; a million take 4 MB.
struct PositionTable {
    private struct Chunk: Hashable {
        var stage: Worker
        var partition: Int32
        var number: Int64
    }

    private static let chunkBitCount: Int64 = 12
    private static let chunkCount = 1 << chunkBitCount

    private var chunks: [Chunk: [UInt32]] = [:]

    /// 0 where none was set.
    subscript(position: DeadLetterPosition) -> UInt32 {
        get {
            chunks[Self.chunk(position)]?[Self.index(position)] ?? 0
        }
        set {
            chunks[
                Self.chunk(position),
                default: Array(repeating: 0, count: Self.chunkCount)
            ][Self.index(position)] = newValue
        }
    }

    private static func chunk(_ position: DeadLetterPosition) -> Chunk {
        Chunk(
            stage: position.stage,
            partition: position.partition,
            number: position.offset >> chunkBitCount
        )
    }

    private static func index(_ position: DeadLetterPosition) -> Int {
        Int(position.offset & Int64(chunkCount - 1))
    }
}
