internal import Foundation
internal import Kafka

/// What the programs are given to work on.
extension BenchWorld {
    private static let fillRecordCount = 2_000
    private static let fillLevelMax = 0.5
    private static let writeByteCount = 4 << 20

    enum Kind {
        case received, decoded, notified
        /// Tokens classified, each of an app to be reported for.
        case distinct([(appAppleID: Int64, bundleID: String)])
        /// Sales, and the tokens of their customers.
        case sale(BenchSales), owned(BenchSales)
    }

    /// Writes the tokens with these numbers and waits until all are stored.
    func fill(_ topic: String, _ kind: Kind, _ numbers: Range<Int>) throws {
        let producer = try KafkaProducer(settings: settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 2_000) }
        var outputs = OutputBatch()
        var storedCount = 0
        for number in numbers {
            switch kind {
            case .received: tokens.appendReceived(number, to: &outputs)
            case .decoded: tokens.appendDecoded(number, to: &outputs)
            case .distinct(let apps): tokens.appendDistinct(number, of: apps, to: &outputs)
            case .notified: notices.append(number, to: &outputs)
            case .sale(let sales): sales.append(number, to: &outputs)
            case .owned(let sales):
                sales.appendToken(ofCustomer: sales.owners[number], to: &outputs)
            }
            guard outputs.outputs.count == Self.fillRecordCount || number == numbers.last else {
                continue
            }
            try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
            outputs.removeAll()
            repeat {
                storedCount += try stored(producer)
                if producer.fillLevel > Self.fillLevelMax {
                    try http.pause(milliseconds: 1)
                }
            } while producer.fillLevel > Self.fillLevelMax
        }
        guard producer.flush(deadlineMilliseconds: 60_000) else {
            throw BenchFailure(.noKafka, code: "bench.kafka", "Kafka does not take the records")
        }
        storedCount += try stored(producer)
        guard storedCount == numbers.count else {
            throw lost("\(topic) took \(storedCount) of \(numbers.count) records")
        }
    }

    private func stored(_ producer: KafkaProducer) throws -> Int {
        let receipts = try producer.takeReceipts()
        if let failure = receipts.lazy.compactMap(\.failure).first {
            throw BenchFailure(
                .noKafka,
                code: "bench.kafka",
                "a record is not stored: \(failure)"
            )
        }
        return receipts.reduce(0) { $0 + $1.outputCount }
    }

    /// Writes requests for the door into a file, each with so many tokens or sales.
    func writeRequests(
        _ item: BenchDoor.Item,
        _ numbers: Range<Int>,
        perRequest: Int
    ) throws -> String {
        let path = try write([], as: "requests")
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        var bytes: [UInt8] = []
        let type = perRequest == 1 ? "application/json" : "application/x-ndjson"
        for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: perRequest) {
            var body: [UInt8] = []
            for number in start..<min(start + perRequest, numbers.upperBound) {
                if !body.isEmpty {
                    body.append(UInt8(ascii: "\n"))
                }
                switch item {
                case .token: tokens.appendForDoor(number, to: &body)
                case .sale(let sales): sales.appendForDoor(number, to: &body)
                }
            }
            let head =
                "POST \(item.path) HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \(type)\r\n"
                + "Authorization: Bearer \(ingestKey)\r\nContent-Length: \(body.count)\r\n\r\n"
            let count = UInt32(head.utf8.count + body.count)
            bytes.append(contentsOf: (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * $0)) })
            bytes.append(contentsOf: head.utf8)
            bytes.append(contentsOf: body)
            if bytes.count >= Self.writeByteCount {
                try file.write(contentsOf: bytes)
                bytes.removeAll(keepingCapacity: true)
            }
        }
        try file.write(contentsOf: bytes)
        try file.close()
        return path
    }
}
