import Foundation
import Kafka
import LocalKafka
import StageRuntime
import TokenDomain
import TokenWire

/// Dead letters as the stages write them, from a seed.
struct DeadLetterMaker {
    enum Kind {
        /// A good token of an app that was not configured: may go back once it is.
        case unknownApp
        /// No token at all.
        case notBase64URL
        /// A report that Apple refused, as `reports.requested` record; its origin is a token.
        case rejected
        /// An app account token that Apple refused.
        case accountToken
    }

    /// Of a report that Apple refused.
    static let deadline = Timestamp(milliseconds: 1_900_000_000_000)
    static let apps: [Int64] = [6_448_311_069, 1_234_567_890, 987_654_321]

    let prefix: String
    var generator: SeededGenerator
    /// What the dead letters say of earlier failures.
    var history = DeadLetter.History.none
    /// When they failed; each a millisecond after the one before.
    var failedAt = Timestamp(milliseconds: 1_700_000_000_000)
    /// The next dead letter's number; in its key, and in its value.
    var number = 0

    init(prefix: String, seed: UInt64) {
        self.prefix = prefix
        generator = SeededGenerator(seed: seed)
    }

    /// Names of the topics that ``append(_:to:)`` writes, in its order.
    var topics: [String] {
        [Worker.decode, .report].map { Topic.deadLetters($0).name(prefix: prefix) }
    }

    mutating func append(_ kind: Kind, to batch: inout OutputBatch) {
        let app = Self.apps[Int(generator.next() % UInt64(Self.apps.count))]
        let id = "\(generator.next() % 4 == 0 ? "SANDBOX" : "")token-\(number)"
        number += 1
        failedAt = failedAt + Milliseconds(1)
        let key: String
        var value: [UInt8] = []
        let fault: Fault
        switch kind {
        case .unknownApp:
            key = customer(number)
            received(token(id: id, app: app), customer: key).write(to: &value)
            fault = DecodeFault.unknownApp(appAppleID: app).fault
        case .notBase64URL:
            key = customer(number)
            received("no token, but \(number)", customer: key).write(to: &value)
            fault = DecodeFault.notBase64URL(byteIndex: number % 100).fault
        case .rejected:
            key = id
            ReportRequested(
                externalPurchaseID: TokenID(id),
                appAppleID: app,
                bundleID: "com.example.\(app)",
                status: .noLineItem,
                requestIdentifier: "00000000-0000-5000-8000-\(padded(number, 12))",
                lineItems: nil,
                deadline: Self.deadline
            ).write(to: &value)
            fault = Fault(code: "report.rejected", message: "Apple answered 400, code 5 (status).")
        case .accountToken:
            key = "transaction-\(number)"
            AccountTokenRequested(
                appAccountToken: "00000000-0000-4000-8000-\(padded(number, 12))",
                subject: .original(
                    transactionID: key,
                    bundleID: "com.example.\(app)",
                    environment: .production
                ),
                requestedAt: failedAt + Milliseconds(-1),
                requestID: "request-\(number)"
            ).write(to: &value)
            fault = Fault(
                code: "report.account_token_rejected",
                message: "Apple refuses the app account token: code 4000183"
            )
        }
        let isReports = kind == .rejected || kind == .accountToken
        let deadLetter = DeadLetter(
            fault: fault,
            worker: isReports ? .report : .decode,
            origin: DeadLetter.Origin(
                topic: prefix + origin(of: kind).name(prefix: ""),
                partition: Int32(number % 4),
                offset: Int64(number),
                group: isReports ? "\(prefix)report" : "\(prefix)decode"
            ),
            failedAt: failedAt,
            history: history
        )
        let keyRange = batch.place(key.utf8)
        let valueRange = batch.place(value)
        let start = batch.arena.count
        HeaderList.append(
            name: "traceparent".utf8,
            value: traceParent(number).utf8,
            to: &batch.arena
        )
        deadLetter.appendHeaders(to: &batch.arena)
        batch.outputs.append(
            OutputBatch.Output(
                topic: isReports ? 1 : 0,
                key: keyRange,
                value: valueRange,
                headers: ByteRange(start: start, count: batch.arena.count - start)
            )
        )
    }

    /// Writes dead letters and waits until all are stored.
    mutating func write(_ kinds: [Kind], each count: Int, to settings: KafkaSettings) throws {
        let producer = try KafkaProducer(settings: settings, targets: topics)
        defer { producer.close(deadlineMilliseconds: 5_000) }
        var written = 0
        while written < count {
            var batch = OutputBatch()
            let size = min(2_000, count - written)
            for _ in 0..<size {
                for kind in kinds {
                    append(kind, to: &batch)
                }
            }
            written += size
            try producer.produce(batch, tags: batch.outputs.map { _ in 0 })
            guard producer.flush(deadlineMilliseconds: 30_000),
                try producer.takeReceipts().allSatisfy(\.isStored)
            else {
                throw LocalCluster.Fault.failed(message: "the dead letters were not stored")
            }
        }
    }

    private func origin(of kind: Kind) -> Topic {
        switch kind {
        case .unknownApp, .notBase64URL: .tokensReceived
        case .rejected: .tokensDistinct
        case .accountToken: .accountTokensRequested
        }
    }

    /// As the record had it when it failed.
    func traceParent(_ number: Int) -> String {
        "00-\(padded(number, 32))-\(padded(number, 16))-01"
    }

    private func received(_ token: String, customer: String) -> TokenReceived {
        TokenReceived(
            token: token,
            customer: CustomerID(customer),
            receivedAt: failedAt,
            source: .app,
            bundleID: nil,
            requestID: "request-\(number)"
        )
    }

    /// As Apple writes them.
    func token(id: String, app: Int64) -> String {
        let json =
            "{\"appAppleId\":\(app),\"bundleId\":\"com.example.\(app)\","
            + "\"externalPurchaseId\":\"\(id)\",\"tokenCreationDate\":\(failedAt.milliseconds)}"
        return Base64URL.encode(Array(json.utf8).span)
    }

    /// In the only form that decode takes; its last character holds no bits beyond 32 bytes.
    private func customer(_ number: Int) -> String {
        "c1." + padded(number, 42) + "0"
    }

    private func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: width - digits.count) + digits
    }
}
