internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Stands for `report` and Apple beside `purchases`: whatever is asked for is accepted at once.
enum BenchAnswers {
    private static let batchRecordCountMax = 10_000
    private static let waitMilliseconds = 20
    private static let idHead = Array("\"lineItemId\":\"".utf8)

    /// Answers what comes to one topic in the other, from the first record on, until the process is
    /// ended.
    static func run(from source: String, to target: String, _ settings: KafkaSettings) throws {
        let producer = try KafkaProducer(settings: settings, targets: [target])
        defer { producer.close(deadlineMilliseconds: 0) }
        let browser = try LogBrowser(settings: settings, topics: [source])
        defer { browser.close() }
        try browser.start()
        var batch = RecordBatch()
        var outputs = OutputBatch()
        while true {
            batch.removeAll()
            _ = try browser.read(
                into: &batch,
                recordCountMax: batchRecordCountMax,
                waitMilliseconds: waitMilliseconds
            )
            for record in batch.records {
                try answer(batch.arena.span.extracting(record.value.indices), record, &outputs)
            }
            try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
            outputs.removeAll()
            if let failure = try producer.takeReceipts().lazy.compactMap(\.failure).first {
                throw BenchFailure(.noKafka, code: "bench.kafka", "an answer is lost: \(failure)")
            }
        }
    }

    private static func answer(
        _ value: Span<UInt8>,
        _ record: RecordBatch.Record,
        _ outputs: inout OutputBatch
    ) throws {
        let request = try ReportRequested(reading: value)
        let place = "\(record.partition)\(record.offset)"
        let zeros = String(repeating: "0", count: max(0, 12 - place.utf8.count))
        let answer = PurchaseAnswered(
            requestIdentifier: "00000000-0000-5000-8000-\(zeros)\(place)",
            externalPurchaseID: request.externalPurchaseID,
            lineItemIDs: ids(in: Array((request.lineItems ?? "").utf8)),
            outcome: .accepted,
            errors: [],
            settledAt: Timestamp(milliseconds: max(record.timestampMilliseconds, 0))
        )
        let text = (request.purchaseKey?.text ?? request.externalPurchaseID.text).utf8
        let key = outputs.place(text.span)
        let start = outputs.arena.count
        answer.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: outputs.placed(from: start))
        )
    }

    /// The ids of the line items, none of which has a quotation mark in it.
    static func ids(in lineItems: [UInt8]) -> [String] {
        var ids: [String] = []
        var start = 0
        while start + idHead.count < lineItems.count {
            guard lineItems[start...].starts(with: idHead) else {
                start += 1
                continue
            }
            start += idHead.count
            let end = lineItems[start...].firstIndex(of: UInt8(ascii: "\"")) ?? lineItems.count
            ids.append(String(decoding: lineItems[start..<end], as: UTF8.self))
            start = end
        }
        return ids
    }
}
