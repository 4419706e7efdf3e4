import Foundation
import Kafka
import StageRuntime
import TokenDomain
import TokenWire

@testable import purchases
@testable import tollway

/// What everybody says of the sales of a storm: the topics, our own book, and Apple's side.
struct SalesEvidence {
    /// What Apple's side has of a line item: how often it accepted it, and the newest version.
    struct AppleItem {
        var versionCount: Int
        var item: NSDictionary
    }

    /// A dead letter of `purchases`.
    struct DeadLetterRecord {
        /// Where its record lay.
        var origin: String
        var code: String
        var value: [UInt8]
    }

    /// One request as Apple's side saw it, in order.
    struct Request {
        var method: String
        var status: Int
        /// `accepted`, `refused` and others, whether or not the answer arrived.
        var outcome: String
        var requestIdentifier: String
        var externalPurchaseID = ""
        var errorCodes: [Int]
        /// UNIX milliseconds.
        var at: Int64
    }

    /// An event as it was stored.
    struct Event: Equatable {
        var lineItemID: String
        var type: String
        var value: [UInt8]
    }

    /// `purchases.received.v1`, by `topic/partition/offset`.
    var received: [String: Event] = [:]
    /// `purchases.outcomes.v1`, those of one line item in their order.
    var outcomes: [PurchaseOutcome] = []
    var deadLetters: [DeadLetterRecord] = []
    /// The items of our own book.
    var book: [String: BookedItem] = [:]
    var apple: [String: AppleItem] = [:]
    var requests: [Request] = []
    /// Reports that `purchases` asked for, and answers to them, by token.
    var askedCounts: [String: Int] = [:]
    var answeredCounts: [String: Int] = [:]
}

extension SalesEvidence {
    /// Reads the topics once they are at rest.
    init(
        _ contents: TopicContents,
        prefix: String,
        apple: [String: AppleItem],
        requests: [Request]
    ) throws {
        self.apple = apple
        self.requests = requests
        let name = Topic.purchasesReceived.name(prefix: prefix)
        for record in contents[.purchasesReceived] {
            let origin = "\(name)/\(record.partition)/\(record.offset)"
            received[origin] = try Self.event(record.value ?? [])
        }
        for record in contents[.purchasesOutcomes] {
            let value = record.value ?? []
            outcomes.append(try PurchaseOutcome(reading: value.span))
        }
        deadLetters = contents[.deadLetters(.purchases)].map { record in
            DeadLetterRecord(
                origin: record.origin,
                code: record.headers["tollway.dlq.code"] ?? "?",
                value: record.value ?? []
            )
        }
        for record in contents[.purchasesState] {
            let key = BookKey(bytes: record.key ?? [])
            if key.kind == .item {
                book[key.name] = try record.value.map { (value) throws(WireFault) in
                    try BookedItem(reading: value, key: key)
                }
            }
        }
        for record in contents[.reportsRequested] {
            let value = record.value ?? []
            let request = try ReportRequested(reading: value.span)
            askedCounts[request.externalPurchaseID.text, default: 0] += 1
        }
        for record in contents[.purchasesAnswered] {
            let value = record.value ?? []
            let answer = try PurchaseAnswered(reading: value.span)
            answeredCounts[answer.externalPurchaseID.text, default: 0] += 1
        }
    }

    static func event(_ value: [UInt8]) throws -> Event {
        let object = try JSONSerialization.jsonObject(with: Data(value)) as? [String: Any]
        return Event(
            lineItemID: object?["lineItemId"] as? String ?? "",
            type: object?["type"] as? String ?? "buy",
            value: value
        )
    }

    /// Reads the simulator's pages: `/line-items` and `/requests`.
    static func appleItems(_ page: Any?) -> [String: AppleItem] {
        var items: [String: AppleItem] = [:]
        for entry in (page as? [String: Any])?["lineItems"] as? [[String: Any]] ?? [] {
            if let item = entry["item"] as? [String: Any], let id = item["lineItemId"] as? String {
                items[id] = AppleItem(
                    versionCount: entry["versions"] as? Int ?? 0,
                    item: item as NSDictionary
                )
            }
        }
        return items
    }

    static func requests(_ page: Any?) -> [Request] {
        ((page as? [String: Any])?["requests"] as? [[String: Any]] ?? []).map { request in
            Request(
                method: request["method"] as? String ?? "",
                status: request["status"] as? Int ?? 0,
                outcome: request["outcome"] as? String ?? "",
                requestIdentifier: request["requestIdentifier"] as? String ?? "",
                externalPurchaseID: request["externalPurchaseId"] as? String ?? "",
                errorCodes: request["errorCodes"] as? [Int] ?? [],
                at: (request["at"] as? NSNumber)?.int64Value ?? 0
            )
        }
    }
}
