import CKafka
import Testing

@testable import Kafka

@Suite struct `Notes of the client library` {
    /// The C side hands out so many a call as there is room for, and says how many it did.
    private func collect(of count: Int) -> (notes: [KafkaNote], callCount: Int) {
        var taken = 0
        var callCount = 0
        let notes = unsafe KafkaNote.collect { first, capacity in
            callCount += 1
            let room = unsafe UnsafeMutableBufferPointer(start: first, count: capacity)
            let most = min(capacity, count - taken)
            for index in 0..<most {
                var note = ckafka_note()
                note.level = Int32(taken + index)
                note.facility.0 = CChar(bitPattern: UInt8(ascii: "F"))
                note.text.0 = CChar(bitPattern: UInt8(ascii: "t"))
                unsafe room.initializeElement(at: index, to: note)
            }
            taken += most
            return most
        }
        return (notes, callCount)
    }

    /// More than fit at once: none is left for the next call, none is returned twice.
    @Test(arguments: [0, 1, 2, 3, 4, 5, 100, 191])
    func `are all taken in one turn, in order`(count: Int) {
        let (notes, _) = collect(of: count)
        #expect(
            notes
                == (0..<count).map { number in
                    KafkaNote(level: number, facility: "F", text: "t")
                }
        )
    }

    @Test func `cost one call where there are none`() {
        #expect(collect(of: 0).callCount == 1)
    }

    /// A library that has more and more to say does not hold the loop.
    @Test func `are limited a turn`() {
        #expect(collect(of: 10_000).notes.count == 192)
    }
}
