import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `A patch of a dead letter` {
    @Test(
        arguments: [
            // RFC 7396, appendix A, where both are objects.
            (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
            (#"{"a":"b"}"#, #"{"a":null}"#, #"{}"#),
            (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
            (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
            (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
            (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#),
            (#"{"e":null}"#, #"{"a":1}"#, #"{"e":null,"a":1}"#),
            (#"{}"#, #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
            // What is not named stays as it was written.
            (#"{"n":1.10,"u":"é","a":1}"#, #"{"a":2}"#, #"{"n":1.10,"u":"é","a":2}"#),
            (#"{"a":{"x": [1, 2]}}"#, #"{"a":{"y":1}}"#, #"{"a":{"x":[1, 2],"y":1}}"#),
            // What stands there twice stands there once.
            (#"{"a":1,"b":2,"a":3}"#, #"{"a":4}"#, #"{"a":4,"b":2}"#),
            (#"{"a":{"x":1},"a":{"x":2}}"#, #"{"a":{"y":1}}"#, #"{"a":{"x":1,"y":1}}"#),
            (#"{"a":1}"#, #"{"a":2,"a":3}"#, #"{"a":3}"#),
        ]
    )
    func `changes what it names and nothing else`(
        before: String,
        patch: String,
        after: String
    ) throws {
        let patched = try MergePatch(Array(patch.utf8)).apply(to: Array(before.utf8))
        #expect(String(decoding: patched, as: UTF8.self) == after)
    }

    @Test(arguments: ["", "1", "[]", "null", "{", "{\"a\":}", "{\"a\":1}{"])
    func `is a JSON object`(text: String) {
        #expect(throws: WireFault.self) { try MergePatch(Array(text.utf8)) }
    }

    @Test(arguments: ["", "1", "[]", "{\"a\"", "{\"a\":1} "])
    func `is for JSON objects`(value: String) throws {
        let patch = try MergePatch(Array("{\"b\":2}".utf8))
        if value.hasSuffix(" ") {
            #expect(try patch.apply(to: Array(value.utf8)) == Array("{\"a\":1,\"b\":2}".utf8))
        } else {
            #expect(throws: WireFault.self) { try patch.apply(to: Array(value.utf8)) }
        }
    }
}

@Suite struct `A set of positions` {
    @Test func `knows each one, whatever their order`() {
        var generator = SeededGenerator(seed: 11)
        var positions: Set<DeadLetterPosition> = []
        for _ in 0..<2_000 {
            positions.insert(
                DeadLetterPosition(
                    stage: generator.next() % 2 == 0 ? .decode : .report,
                    partition: Int32(generator.next() % 3),
                    offset: Int64(generator.next() % 1_000)
                )
            )
        }
        let set = PositionSet(positions)
        #expect(set.count == positions.count)
        for stage in DeadLetters.stages {
            for partition in Int32(0)..<4 {
                for offset in Int64(0)...1_000 {
                    let position = DeadLetterPosition(
                        stage: stage,
                        partition: partition,
                        offset: offset
                    )
                    #expect(set.contains(position) == positions.contains(position))
                }
            }
        }
        #expect(set.of(.decode).count + set.of(.report).count == set.count)
        #expect(set.of(.decode).stages == [.decode])
        #expect(PositionSet(set.ranges) == set)
    }

    @Test func `refuses ranges that overlap or lie the wrong way`() {
        let partition = DeadLetterPartition(stage: .decode, partition: 0)
        #expect(PositionSet([partition: [0...5, 5...9]]) == nil)
        #expect(PositionSet([partition: [7...9, 0...5]]) == nil)
        #expect(PositionSet([partition: [0...Int64.max]]) == nil)
        #expect(PositionSet([partition: [0...5, 7...9]])?.count == 9)
        let most = Int64(PositionSet.countMax)
        #expect(PositionSet([partition: [0...most - 1]])?.count == PositionSet.countMax)
        #expect(PositionSet([partition: [0...most - 1, most + 1...most + 1]]) == nil)
    }
}

@Suite struct `What became of dead letters` {
    private let position = DeadLetterPosition(stage: .decode, partition: 2, offset: 4_097)

    @Test func `is known by place and time`() {
        var settled = SettledDeadLetters()
        settled.set(.replayed, of: position, timestamp: 1_000)
        #expect(settled.state(of: position, timestamp: 1_000) == .replayed)
        // The topic was made anew: another dead letter lies at that offset.
        #expect(settled.state(of: position, timestamp: 1_001) == nil)
        for other in [
            DeadLetterPosition(stage: .report, partition: 2, offset: 4_097),
            DeadLetterPosition(stage: .decode, partition: 1, offset: 4_097),
            DeadLetterPosition(stage: .decode, partition: 2, offset: 1),
        ] {
            #expect(settled.state(of: other, timestamp: 1_000) == nil)
        }
        settled.set(.discarded, of: position, timestamp: 1_000)
        #expect(settled.state(of: position, timestamp: 1_000) == .discarded)
        #expect(settled.count == 1)
        settled.set(nil, of: position, timestamp: 0)
        #expect(settled.state(of: position, timestamp: 1_000) == nil)
        #expect(settled.count == 0)
    }

    @Test func `is read as it was written`() throws {
        var bytes: [UInt8] = []
        SettledDeadLetter(
            state: .discarded,
            deadLetterTimestamp: 7,
            replayID: "r",
            at: 9,
            target: "t"
        ).write(to: &bytes)
        let read = try SettledDeadLetter(reading: bytes.span)
        #expect(read.state == .discarded && read.deadLetterTimestamp == 7 && read.at == 9)
        #expect(read.replayID == "r" && read.target == "t")
        let wrong = Array(#"{"state":"lost","letterTimestamp":7}"#.utf8)
        #expect(throws: WireFault.outOfRange(field: "state")) {
            try SettledDeadLetter(reading: wrong.span)
        }
    }
}
