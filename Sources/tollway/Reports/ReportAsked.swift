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
        let record = OrderedRecord(
            topic: .reportsRequested,
            key: report.request.externalPurchaseID.text,
            order: order,
            configuration: configuration
        )
        let audit = ReportAudit(order: order, request: report.request, at: report.now.milliseconds)
        do throws(LogFault) {
            let place = try record.write(report.request.write, audit: audit.write)
            return RecordOrigin(
                topic: Self.topicIndex,
                partition: place.partition,
                offset: place.offset
            )
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
}

/// A value of `<prefix>audit.v1`: a report that was asked for by hand.
struct ReportAudit {
    var order: HandOrder
    var request: ReportRequested
    /// UNIX milliseconds.
    var at: Int64

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit(ReportCommand.request.words.joined(separator: "."), order, at: at)
            writer.field("externalPurchaseId", request.externalPurchaseID.text)
            writer.field("appAppleId", request.appAppleID)
            writer.field("status", request.status.rawValue)
            writer.field("requestIdentifier", request.requestIdentifier)
            writer.endObject()
        }
    }
}
