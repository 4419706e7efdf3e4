import Kafka
import TokenDomain

@testable import tollway

/// A sale without customer: a platform may write it to Kafka as it is, without the key that makes a
/// pseudonym of a name.
struct DirectSale {
    /// The purchase key: the token's id.
    var key: String
    var sale: DemoSale

    /// All of them that are reported.
    static func all(of sales: DemoSales?) -> [DirectSale] {
        (sales?.sales ?? []).compactMap { sale in
            guard sale.end == .reported, sale.type == "buy", !sale.line.contains("\"customer\""),
                let buyer = sales?.buyers.first(where: {
                    sale.line.contains($0.token.externalPurchaseID)
                })
            else {
                return nil
            }
            return DirectSale(key: buyer.token.externalPurchaseID, sale: sale)
        }
    }
}

/// Sales of a platform that writes `purchases.received.v1` itself, with another partitioner than
/// Kafka's own: each is a dead letter, as its customer's tokens are in another partition.
struct MisplacedSales {
    static let end = DemoSale.End.deadLetter("purchases.wrong_partition")

    private let written: [DirectSale]

    /// Makes one of each that a platform may write, with a name of its own.
    init(_ sales: DemoSales) {
        written = DirectSale.all(of: sales).map { direct in
            let id = "misplaced-\(direct.sale.lineItemID)"
            return DirectSale(
                key: direct.key,
                sale: DemoSale(
                    saleClass: .faults,
                    lineItemID: id,
                    type: "buy",
                    line: direct.sale.line
                        .replacing("\"\(direct.sale.lineItemID)\"", with: "\"\(id)\""),
                    end: Self.end
                )
            )
        }
    }

    /// What must become of them.
    var sales: [DemoSale] { written.map(\.sale) }

    /// Writes each once, in the partition behind its own.
    func write(settings: KafkaSettings, prefix: String) throws {
        let count = Int32(DemoCluster.partitionCount)
        var outputs = OutputBatch()
        for one in written {
            let home = Partitioner.partition(ofKey: Array(one.key.utf8).span, partitionCount: count)
            let key = outputs.place(one.key.utf8)
            let value = outputs.place(one.sale.line.utf8)
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    partition: (home + 1) % count,
                    key: key,
                    value: value
                )
            )
        }
        let producer = try KafkaProducer(
            settings: settings,
            targets: [Topic.purchasesReceived.name(prefix: prefix)]
        )
        defer { producer.close(deadlineMilliseconds: 2_000) }
        try producer.produce(outputs, tags: written.indices.map { UInt64($0) })
        guard producer.flush(deadlineMilliseconds: 10_000),
            try producer.takeReceipts().allSatisfy(\.isStored)
        else {
            throw StormFault(sentence: "Kafka does not take misplaced sales")
        }
    }
}
