import Testing
import TokenDomain

@Suite struct `Orders for lanes that hold` {
    private static let lane = Lane(appAppleID: 7, environment: .sandbox)

    private func order(_ state: LaneOrder.State, resetAt: Int64? = nil) -> LaneOrder {
        LaneOrder(
            lane: Self.lane,
            state: state,
            resetAt: resetAt.map { Timestamp(milliseconds: $0) },
            by: "ann",
            why: "x",
            at: Timestamp(milliseconds: 1)
        )
    }

    @Test func `are the newest of each lane, and each changes something once`() {
        var orders = LaneOrders()
        #expect(orders.take(order(.open)).isEmpty)
        #expect(orders.take(order(.paused)) == [.paused(order(.paused))])
        #expect(orders.take(order(.paused)).isEmpty)
        #expect(orders.pause(of: Self.lane) != nil && orders.pausedLanes == [Self.lane])
        #expect(orders.pause(of: Lane(appAppleID: 7, environment: .production)) == nil)
        #expect(orders.take(order(.open)) == [.resumed(order(.open))])
        let reset = order(.open, resetAt: 5)
        #expect(orders.take(reset) == [.reset(reset)])
        #expect(orders.take(reset).isEmpty)
        // The operator's clock may go back.
        let another = order(.open, resetAt: 4)
        #expect(orders.take(another) == [.reset(another)])
        let paused = order(.paused, resetAt: 4)
        #expect(orders.take(paused) == [.paused(paused)])
    }

    @Test func `are forgotten by their key`() {
        var orders = LaneOrders()
        _ = orders.take(order(.paused))
        #expect(order(.paused).key == "7|sandbox")
        #expect(orders.forget(key: "7|production") == nil)
        #expect(orders.forget(key: "7|sandbox") == .resumed(order(.paused)))
        #expect(orders == LaneOrders())
    }
}
