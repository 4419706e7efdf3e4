import TokenDomain

@testable import tollway

/// Sends the demo's sales among its tokens, a few in a post, so that every fault finds some on their
/// way.
final class SaleSender {
    private static let salesPerPost = 8

    private let run: DemoRun
    private var left: ArraySlice<DemoSale>
    /// Deliveries of tokens between two posts of sales.
    private let deliveriesPerPost: Int
    private var deliveryCount = 0

    init(run: DemoRun) {
        self.run = run
        let sales = (run.stream.sales?.sales ?? []).filter { $0.end != MisplacedSales.end }
        // Time alone settles what finds no token: it goes first, and is settled while the storm blows.
        // No customer has sales in two of these classes, and of each all keep their order.
        let first: Set<DemoSaleClass> = [.tokenless, .faults]
        let ordered =
            sales.filter { first.contains($0.saleClass) }
            + sales.filter { !first.contains($0.saleClass) }
        left = ordered[...]
        let postCount = max(ordered.count / Self.salesPerPost, 1)
        // In the first half of the stream: their reports are under way for the rest of it.
        deliveriesPerPost = max(run.stream.deliveries.count / (2 * postCount), 1)
    }

    /// Called between two deliveries of tokens.
    func delivered() throws {
        deliveryCount += 1
        if deliveryCount.isMultiple(of: deliveriesPerPost) {
            try run.sell(left.prefix(Self.salesPerPost))
            left = left.dropFirst(Self.salesPerPost)
        }
    }

    /// Sends what is left.
    func finish() throws {
        while !left.isEmpty {
            try run.sell(left.prefix(Self.salesPerPost))
            left = left.dropFirst(Self.salesPerPost)
        }
    }
}
