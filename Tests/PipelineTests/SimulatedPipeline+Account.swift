import AppleSimulator
import Kafka
import Simulation
import StageRuntime
import TokenDomain
import TokenWire

/// The account at the end: everything that came in has its one end.
extension SimulatedPipeline {
    /// Everything that goes wrong, then calm, and the tokens that come late.
    func playToTheEnd() throws {
        try storm(stepCount: 150)
        try calm()
        try sellOn(eventCount: 30)
        try feedLateTokens()
        try calm()
    }

    func differences() throws -> [String] {
        var differences: [String] = []
        let told = Dictionary(grouping: apple.world.acceptedReports, by: \.externalPurchaseID)
            .mapValues { $0.map(\.status) }
        for (id, status) in owed.sorted(by: { $0.key < $1.key }) {
            let statuses = told[id] ?? []
            if statuses.count != 1 || !status.contains(statuses[0]) {
                differences.append("\(id) owed \(status), Apple has \(statuses)")
            }
        }
        for id in Set(told.keys).subtracting(owed.keys).subtracting(shop.owed.keys).sorted() {
            differences.append("\(id): nothing is owed, Apple has \(told[id] ?? [])")
        }
        let ledger = try ledger()
        let byToken = Dictionary(grouping: ledger, by: \.externalPurchaseID.text)
        let carriers = shop.tokens
        for (id, outcomes) in byToken where !carriers.contains(id) {
            // What is said of a forged one is nothing to Apple, whatever its place in the period.
            let isRefused = forged.contains(id)
            let isRight =
                outcomes.count == 1 && (outcomes[0].outcome == .rejected) == isRefused
                && (isRefused || owed[id]?.contains(outcomes[0].status.rawValue) == true)
            if !isRight {
                differences.append("\(id): the ledger has \(outcomes)")
            }
        }
        let tokenCount = owed.count + forged.subtracting(carriers).count
        let entryCount = ledger.count { !carriers.contains($0.externalPurchaseID.text) }
        if entryCount != tokenCount {
            differences.append("the ledger has \(entryCount) entries for \(tokenCount) tokens")
        }
        let refused = try cluster.committedRecords(
            of: Topic.tokensRefused.name(prefix: Self.prefix)
        ).map {
            let value = $0.value ?? []
            return try TokenRefused(reading: value.span).externalPurchaseID.text
        }
        if Set(refused) != forged {
            differences.append("\(forged.count) forged tokens, and \(refused) are told")
        }
        let deadLetters = Self.workers.filter { $0 != .purchases }.reduce(0) {
            $0 + self.deadLetters(of: $1).count
        }
        if deadLetters != deadLetterGoal {
            differences.append("\(deadLetters) dead letters for \(deadLetterGoal) bad inputs")
        }
        differences += try differencesOfSales(in: shop, told: told)
        differences += differencesOfCarriers(in: shop, told: told, ledger: byToken)
        differences += unplannedRefusals().map { "Apple refused \($0)" }
        differences += apple.overlaps
        differences += lostTraces()
        if cluster.hasOpenTransaction {
            differences.append("a transaction is open at the end")
        }
        return differences
    }

    /// Of reports.
    func ledger() throws -> [ReportOutcome] {
        try cluster.committedRecords(of: Topic.reportsOutcomes.name(prefix: Self.prefix)).map {
            let value = $0.value ?? []
            return try ReportOutcome(reading: value.span)
        }
    }

    /// What Apple refused and was not meant to: all but forged tokens and poison sales.
    private func unplannedRefusals() -> [SimulatedApple.Refusal] {
        apple.refusals.filter { refusal in
            let isForged =
                forged.contains(refusal.token)
                && refusal.errors.allSatisfy {
                    $0.code == 3 && $0.fieldName == "externalPurchaseId"
                }
            return !isForged && !refusal.lineItemIDs.contains(where: SimulatedShop.isPoison)
        }
    }
}
