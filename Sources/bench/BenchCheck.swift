internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Reads what was written and compares it with what was sent: a bench that loses or doubles a record
/// fails.
struct BenchCheck {
    let world: BenchWorld

    /// Records and bytes of topics, read committed.
    struct Sum: Equatable {
        var recordCount = 0
        var keyByteCount = 0
        var valueByteCount = 0
        /// Names and values.
        var headerByteCount = 0

        var byteCount: Int { keyByteCount + valueByteCount + headerByteCount }
        var bytesPerRecord: Double { Double(byteCount) / Double(max(recordCount, 1)) }
    }

    func sum(_ topics: [String]) throws -> Sum {
        var sum = Sum()
        try read(topics) { sum.add($1, of: $0) }
        return sum
    }

    /// What a worker wrote of some inputs, as the copy loop reads it.
    struct Material {
        var sum = Sum()
        /// For each input how many outputs, and of each its topic's index, the lengths of key and
        /// value, and both; numbers of 4 bytes, little-endian.
        var bytes: [UInt8] = []
        /// How many outputs the inputs before each one have, and all of them.
        var outputCounts = [0]

        /// How many outputs a loop writes that begins with the first input, and with it again after
        /// the last.
        func outputCount(ofInputs count: Int) -> Int {
            let inputCount = outputCounts.count - 1
            return count / inputCount * outputCounts[inputCount] + outputCounts[count % inputCount]
        }

        fileprivate mutating func append(_ numbers: Int...) {
            for number in numbers {
                bytes += (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
            }
        }
    }

    /// Reads the results of so many inputs from some places on, and shares out those of each topic
    /// among them.
    func material(
        _ topics: [String],
        from places: [TopicPartition: LogBrowser.Start],
        inputCount: Int
    ) throws -> Material {
        var material = Material()
        var outputs = [[(key: [UInt8], value: [UInt8])]](repeating: [], count: topics.count)
        try read(topics, from: places) { batch, record in
            material.sum.add(record, of: batch)
            let (key, value) = (batch.arena[record.key.indices], batch.arena[record.value.indices])
            outputs[record.topic].append((Array(key), Array(value)))
        }
        for input in 0..<inputCount {
            let shares = outputs.map { outputs in
                outputs[
                    outputs.count * input / inputCount..<outputs.count * (input + 1) / inputCount
                ]
            }
            let count = shares.reduce(0) { $0 + $1.count }
            material.outputCounts.append((material.outputCounts.last ?? 0) + count)
            material.append(count)
            for (topic, share) in shares.enumerated() {
                for output in share {
                    material.append(topic, output.key.count, output.value.count)
                    material.bytes += output.key + output.value
                }
            }
        }
        return material
    }

    /// That the numbers are there, each once, and no others.
    func expectEachOnce(
        _ numbers: Range<Int>,
        in topic: String,
        byMember member: String = BenchTally.tokenMember
    ) throws {
        var tally = BenchTally(numbers, byMember: member)
        try read([topic]) { batch, record in
            tally.note(batch.arena.span.extracting(record.value.indices))
        }
        if let fault = tally.fault {
            throw world.lost("\(topic) \(fault)")
        }
    }

    private func read(
        _ topics: [String],
        from places: [TopicPartition: LogBrowser.Start]? = nil,
        _ visit: (RecordBatch, RecordBatch.Record) throws -> Void
    ) throws {
        try topics.forEach(world.awaitStable)
        let browser = try LogBrowser(settings: world.settings, topics: topics)
        defer { browser.close() }
        if let places {
            try browser.start(at: places)
        } else {
            try browser.start()
        }
        try browser.readToEnd { batch in
            for record in batch.records {
                try visit(batch, record)
            }
            try world.http.pause(milliseconds: 0)
        }
    }
}

extension BenchCheck.Sum {
    fileprivate mutating func add(_ record: RecordBatch.Record, of batch: RecordBatch) {
        recordCount += 1
        keyByteCount += max(record.key.count, 0)
        valueByteCount += max(record.value.count, 0)
        for header in HeaderList.entries(in: record.headers, of: batch.arena) {
            headerByteCount += header.name.utf8.count + max(header.value.count, 0)
        }
    }
}

/// Which of the tokens or sales sent were met again, by their numbers.
struct BenchTally {
    private let numbers: Range<Int>
    private var isSeen: [Bool]
    private var seenCount = 0
    private var doubled: Int?
    private var strangeCount = 0

    static let tokenMember = "externalPurchaseId"
    static let saleMember = "lineItemId"
    private let idHead: [UInt8]
    private static let sandboxHead = Array(BenchTokens.sandboxHead.utf8)

    /// A record tells its number in the first member of that name.
    init(_ numbers: Range<Int>, byMember member: String = tokenMember) {
        idHead = Array("\"\(member)\":\"".utf8)
        self.numbers = numbers
        isSeen = [Bool](repeating: false, count: numbers.count)
    }

    /// Notes the value of a record.
    ///
    /// What the pipeline writes names the id; in `received` it is in the token.
    mutating func note(_ value: Span<UInt8>) {
        guard let number = number(of: value), numbers.contains(number) else {
            strangeCount += 1
            return
        }
        let index = number - numbers.lowerBound
        guard !isSeen[index] else {
            doubled = number
            return
        }
        isSeen[index] = true
        seenCount += 1
    }

    /// What is wrong, if anything is: the rest of a sentence about the topic.
    var fault: String? { fault(seenCountMin: numbers.count) }

    /// As ``fault``, where of the numbers only so many need to be there.
    func fault(seenCountMin: Int) -> String? {
        if strangeCount > 0 {
            return "has \(strangeCount) records that nobody sent"
        }
        if let doubled {
            return "has number \(doubled) twice"
        }
        return seenCount >= seenCountMin ? nil : "has \(seenCount) of the \(seenCountMin) sent"
    }

    private static let idByteCount = 36

    private func number(of value: Span<UInt8>) -> Int? {
        var start = 0
        while start + idHead.count + Self.idByteCount < value.count {
            if Self.starts(value.extracting(droppingFirst: start), with: idHead) {
                var id = start + idHead.count
                let rest = value.extracting(droppingFirst: id)
                id += Self.starts(rest, with: Self.sandboxHead) ? Self.sandboxHead.count : 0
                guard id + Self.idByteCount <= value.count else {
                    return nil
                }
                return BenchTokens.number(ofID: value.extracting(id..<id + Self.idByteCount))
            }
            start += 1
        }
        do {
            let received = try TokenReceived(reading: value)
            let text = Array(received.token.utf8)
            let id = Array(try decodeToken(text.span).externalPurchaseID.text.utf8)
            return BenchTokens.number(ofID: id.span)
        } catch {
            // What it is instead does not matter: the bench did not send it.
            return nil
        }
    }

    private static func starts(_ value: Span<UInt8>, with head: [UInt8]) -> Bool {
        guard value.count >= head.count else {
            return false
        }
        for index in head.indices where value[index] != head[index] {
            return false
        }
        return true
    }
}
