internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Writes a report that was asked for by hand, and its audit, in one transaction.
struct ReportAsked {
    /// Of ``Topic/reportsRequested`` among what report reads.
    static let topicIndex = Worker.report.sources.firstIndex(of: .reportsRequested) ?? 0

    let report: ReportByHand
    let order: HandOrder
    let configuration: Configuration

    /// Where the record lies now.
    ///
    /// - Throws: exit 1 where it is not known whether it was written.
    func write() throws(CommandFailure) -> RecordOrigin {
        let prefix = configuration.topicPrefix
        let topics = [Topic.reportsRequested, .audit].map { $0.name(prefix: prefix) }
        do throws(LogFault) {
            let transactor = try KafkaTransactor(
                settings: configuration.kafka,
                // Of this order alone: another operator's must not end it.
                transactionalID: "\(prefix)\(order.id)",
                targets: topics
            )
            defer { transactor.close() }
            try transactor.takeOver()
            let ends = try transactor.commit(outputs)
            guard let (place, end) = ends.first(where: { $0.key.topic == topics[0] }) else {
                preconditionFailure("what is committed lies somewhere")
            }
            return RecordOrigin(topic: Self.topicIndex, partition: place.partition, offset: end - 1)
        } catch {
            let failure = KafkaQuestion.failure(error, configuration)
            throw CommandFailure(
                failure.exit == .noKafka ? .noKafka : .failed,
                code: "request.unknown_result",
                "\(failure.message); whether \(order.id) was written, tollway token trace shows:"
                    + " look before asking again"
            )
        }
    }

    private var outputs: OutputBatch {
        var outputs = OutputBatch()
        let key = outputs.place(report.request.externalPurchaseID.text.utf8)
        let valueStart = outputs.arena.count
        report.request.write(to: &outputs.arena)
        let value = outputs.placed(from: valueStart)
        let headersStart = outputs.arena.count
        HeaderList.append(
            name: HandOrder.header.utf8,
            value: order.id.utf8,
            to: &outputs.arena
        )
        let headers = outputs.placed(from: headersStart)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: value, headers: headers)
        )
        let auditKey = outputs.place(order.id.utf8)
        let auditStart = outputs.arena.count
        ReportAudit(order: order, request: report.request, at: report.now.milliseconds)
            .write(to: &outputs.arena)
        let audit = outputs.placed(from: auditStart)
        outputs.outputs.append(OutputBatch.Output(topic: 1, key: auditKey, value: audit))
        return outputs
    }
}

/// A value of `<prefix>audit.v1`: a report that was asked for by hand.
struct ReportAudit {
    var order: HandOrder
    var request: ReportRequested
    /// UNIX milliseconds.
    var at: Int64

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("action", ReportCommand.request.words.joined(separator: "."))
            writer.field("runId", order.id)
            writer.field("at", at)
            writer.field("by", order.by)
            writer.field("why", order.why)
            writer.field("externalPurchaseId", request.externalPurchaseID.text)
            writer.field("appAppleId", request.appAppleID)
            writer.field("status", request.status.rawValue)
            writer.field("requestIdentifier", request.requestIdentifier)
            writer.endObject()
        }
    }
}
