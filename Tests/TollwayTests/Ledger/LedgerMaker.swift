import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

/// Records of the ledger, as report writes them.
enum LedgerMaker {
    /// 2026-10-15T12:00:00Z.
    static let time = Timestamp(milliseconds: 1_792_065_600_000)

    static func identifier(_ number: Int) -> String {
        let digits = String(number)
        return "00000000-0000-5000-8000-" + String(repeating: "0", count: 12 - digits.count)
            + digits
    }

    static func item(
        _ id: String,
        _ eventType: String = "BUY",
        exclusive: Int64 = 4_126,
        tax: Int64 = 864,
        currency: String = "EUR",
        at: Timestamp = time,
        more: String = ""
    ) -> String {
        #"{"lineItemId":"\#(id)","creationDate":\#(at.milliseconds),"eventType":"\#(eventType)","#
            + #""amountTaxExclusive":\#(exclusive),"taxAmount":\#(tax),"amountTaxInclusive":"#
            + #"\#(exclusive + tax),"netAmountTaxExclusive":\#(exclusive),"reportingCurrency":"#
            + #""\#(currency)","pricingCurrency":"\#(currency)","taxCountry":"ESP"\#(more)}"#
    }

    static func outcome(
        _ number: Int,
        token: String = "t-1",
        app: Int64 = 1,
        items: [String] = [],
        outcome: ReportOutcome.Outcome = .accepted,
        settledAt: Timestamp = time,
        late: Int64? = 0
    ) -> ReportOutcome {
        ReportOutcome(
            requestIdentifier: identifier(number),
            externalPurchaseID: TokenID(token),
            appAppleID: app,
            status: items.isEmpty ? .noLineItem : .lineItem,
            outcome: outcome,
            httpStatus: outcome == .rejected ? 400 : 200,
            errors: outcome == .rejected
                ? [AppleError(code: 36, fieldName: "creationDate", lineItemID: "=a,\"b\"")] : [],
            attempts: 1,
            reason: "hold",
            firstSentAt: settledAt + Milliseconds(-40),
            settledAt: settledAt,
            details: ReportOutcome.Details(
                lineItems: items.isEmpty ? nil : "[" + items.joined(separator: ",") + "]",
                tokenCreationDate: settledAt + -.days(1),
                deadline: settledAt + .days(9),
                lateBySeconds: late
            )
        )
    }

    static func write(_ outcomes: [ReportOutcome], to world: DeadLetterWorld) throws {
        try write(outcomes, prefix: world.prefix, world.settings)
    }

    static func write(
        _ outcomes: [ReportOutcome],
        prefix: String,
        _ settings: KafkaSettings
    ) throws {
        let topic = Topic.reportsOutcomes.name(prefix: prefix)
        let producer = try KafkaProducer(settings: settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for outcome in outcomes {
            let key = outputs.place(outcome.externalPurchaseID.text.utf8)
            let start = outputs.arena.count
            outcome.write(to: &outputs.arena)
            outputs.outputs.append(
                OutputBatch.Output(topic: 0, key: key, value: outputs.placed(from: start))
            )
        }
        try producer.produce(outputs, tags: outcomes.indices.map(UInt64.init))
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }
}
