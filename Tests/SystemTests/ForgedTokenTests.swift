import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

/// Goal: who sends a forged token with a customer's dates hides neither the real token of the period
/// nor the customer's sale.
///
/// Method: the built programs on a Kafka of their own. Every order of (forged, real, sale), each
/// once as fast as they can be sent and once with a pause, in which Apple's side refuses a forged
/// token that has come; then a second real token of the period.
@Suite struct `A forged token on a real Kafka` {
    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `hides neither the real one nor the sale, in whatever order they come`() throws {
        let rig = try ForgedRig()
        defer { rig.stop() }
        let orders: [[ForgedRig.Arrival]] = [
            [.forged, .real, .sale], [.forged, .sale, .real], [.real, .forged, .sale],
            [.real, .sale, .forged], [.sale, .forged, .real], [.sale, .real, .forged],
        ]
        let customers = try [false, true].flatMap { isPaused in
            try orders.map { try rig.customer($0, isPaused: isPaused) }
        }
        try rig.send(customers)
        try rig.awaitEnd(customers)

        let apple = try rig.run.appleSide()
        let outcomes = try rig.outcomes()
        for customer in customers {
            let real = apple[customer.real.externalPurchaseID] ?? []
            #expect(real.last == "LINE_ITEM", "\(customer): \(real)")
            #expect(!real.contains("DUPLICATE_TOKEN"), "\(customer): \(real)")
            #expect(apple[customer.forged.externalPurchaseID] == nil, "\(customer)")
            #expect(apple[customer.second.externalPurchaseID] == ["DUPLICATE_TOKEN"], "\(customer)")
            #expect(
                outcomes[customer.lineItemID]
                    == ["reported \(customer.real.externalPurchaseID)"],
                "\(customer)"
            )
        }
        try expectRefusals(customers, rig)
        try expectPromotions(customers, rig)
        // The real token has been heard before anybody is told to be a duplicate of it.
        let waits = try rig.duplicatesAccepted(customers)
        #expect(waits.count == customers.count)
        for (id, milliseconds) in waits {
            #expect(milliseconds >= 2 * ForgedRig.holdMilliseconds, "\(id): \(milliseconds) ms")
        }
    }

    /// Apple refuses what is forged, and nothing else; `purchases` and `dedupe` are told once each.
    private func expectRefusals(_ customers: [ForgedRig.Customer], _ rig: ForgedRig) throws {
        let forged = Set(customers.map(\.forged.externalPurchaseID))
        let requests = try rig.requests()
        let others = requests.filter { !forged.contains($0.externalPurchaseID) }
        #expect(SalesAudit.unplannedRefusals(others) == [])
        for request in requests where forged.contains(request.externalPurchaseID) {
            #expect(request.errorCodes.contains(3), "\(request)")
        }
        let refused = try rig.run.records(of: [.tokensRefused]) { batch, record in
            try TokenRefused(reading: batch.arena.span.extracting(record.value.indices))
        }
        // Once for its customer; a sale that asks before the token itself has come has it refused for
        // nobody first.
        let known = refused.filter { $0.customer != nil }
        #expect(known.map(\.externalPurchaseID.text).sorted() == forged.sorted())
        #expect(Set(refused.map(\.externalPurchaseID.text)) == forged)
        // What nobody can tell Apple is a person's to look at; the sale goes on by itself.
        let deadLetters = try rig.run.deadLetters()
        #expect(deadLetters == ["report report.rejected": customers.count], "\(deadLetters)")
    }

    /// The next one of the period is promoted where the forged one was the first.
    private func expectPromotions(_ customers: [ForgedRig.Customer], _ rig: ForgedRig) throws {
        let promotions = try rig.run.records(of: [.tokensDistinct]) { batch, record in
            let distinct = try TokenDistinct(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            return distinct.promotedFrom.map {
                "\($0.text) \(distinct.externalPurchaseID.text)"
            }
        }
        let found = Set(promotions.compactMap(\.self))
        func promotion(_ customer: ForgedRig.Customer) -> String {
            "\(customer.forged.externalPurchaseID) \(customer.real.externalPurchaseID)"
        }
        let hidden = customers.filter(\.hides)
        #expect(found.isSuperset(of: hidden.filter { !$0.isPaused }.map(promotion)))
        // With pauses the real one mostly comes when the forged one is refused already.
        #expect(found.isSubset(of: hidden.map(promotion)))
    }
}
