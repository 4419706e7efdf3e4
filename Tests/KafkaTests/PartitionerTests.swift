import Kafka
import Testing

/// The values are those of `UtilsTest.testMurmur2` in Apache Kafka's Java client.
@Suite struct `Partitions by key` {
    @Test(arguments: [
        ("21", Int32(-973_932_308)),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ])
    func `hash as Java's client does`(key: String, hash: Int32) {
        let bytes = Array(key.utf8)
        #expect(Int32(bitPattern: Partitioner.murmur2(bytes.span)) == hash)
    }

    @Test func `never are negative`() {
        for number in 0..<1000 {
            let key = Array("key \(number)".utf8)
            let partition = Partitioner.partition(ofKey: key.span, partitionCount: 12)
            #expect((0..<12).contains(partition))
        }
    }
}

@Suite struct `A header list` {
    @Test func `comes back as it was written`() {
        var arena: [UInt8] = [9, 9]
        let start = arena.count
        HeaderList.append(name: Array("a".utf8), value: Array("1".utf8), to: &arena)
        HeaderList.append(name: Array("none".utf8), value: [UInt8]?.none, to: &arena)
        HeaderList.append(name: [], value: [UInt8](), to: &arena)
        HeaderList.append(name: Array("a".utf8), value: Array(repeating: 7, count: 300), to: &arena)
        let range = ByteRange(start: start, count: arena.count - start)
        let entries = HeaderList.entries(in: range, of: arena)
        #expect(entries.map(\.name) == ["a", "none", "", "a"])
        #expect(entries.map(\.value.count) == [1, -1, 0, 300])
        #expect(arena[entries[3].value.indices].allSatisfy { $0 == 7 })
        #expect(HeaderList.entries(in: .absent, of: arena).isEmpty)
    }
}
