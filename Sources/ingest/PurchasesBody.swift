internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Makes records of `purchases.received` from the body of `POST /v1/purchases`.
///
/// What can be judged of an event alone is judged here, so that the response names the faults; the
/// fields that are known go into the record, and nothing else of the body.
struct PurchasesBody {
    private let receivedAt: Timestamp
    private let requestID: String
    private let pseudonyms: CustomerPseudonyms?

    /// `receivedAt` and `requestID` are carried by every record of the request; without `pseudonyms` a
    /// customer is refused.
    init(receivedAt: Timestamp, requestID: String, pseudonyms: CustomerPseudonyms?) {
        self.receivedAt = receivedAt
        self.requestID = requestID
        self.pseudonyms = pseudonyms
    }

    /// One event as an object of its own.
    func appendOne(_ body: [UInt8], to outputs: inout OutputBatch) throws(Problem) {
        try append(body, body.indices, to: &outputs)
    }

    /// One object a line; all of them, or none.
    ///
    /// - Returns: how many records it made; at least one.
    func appendLines(_ body: [UInt8], to outputs: inout OutputBatch) throws(Problem) -> Int {
        try BodyLines.read(body) { (line) throws(Problem) in
            try append(body, line, to: &outputs)
        }
    }

    private func append(
        _ body: [UInt8],
        _ range: Range<Int>,
        to outputs: inout OutputBatch
    ) throws(Problem) {
        var event: PurchaseEvent
        do throws(PurchaseFaults) {
            event = try .read(body.span.extracting(range), from: .door, now: receivedAt)
        } catch {
            throw Problem(error)
        }
        event.receivedAt = receivedAt
        event.requestID = requestID
        let key: ByteRange
        if let customer = event.customer {
            guard let pseudonyms else {
                throw .customerRefused
            }
            let start = outputs.arena.count
            pseudonyms.append(of: Array(customer.text.utf8), to: &outputs.arena)
            key = outputs.placed(from: start)
            event.customer = CustomerID(
                String(decoding: outputs.arena[key.indices], as: UTF8.self)
            )
        } else if let id = event.externalPurchaseID {
            key = outputs.place(id.text.utf8)
        } else {
            preconditionFailure("the rules ask for a customer or a token")
        }
        let start = outputs.arena.count
        event.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: Route.purchases.topic,
                timestampMilliseconds: receivedAt.milliseconds,
                key: key,
                value: outputs.placed(from: start)
            )
        )
    }
}
