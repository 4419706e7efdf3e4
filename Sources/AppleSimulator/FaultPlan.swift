/// The faults in force, each with its own count and its own chance.
struct FaultPlan: Sendable {
    /// Each is looked at for each request.
    static let countMax = 1000

    struct Armed: Sendable {
        let rule: FaultRule
        var matchCount = 0
        var strikeCount = 0
        var generator: SeededGenerator
    }

    private(set) var armed: [Armed] = []

    mutating func add(_ rule: FaultRule) {
        armed.append(Armed(rule: rule, generator: SeededGenerator(seed: rule.seed)))
    }

    mutating func removeAll() {
        armed.removeAll()
    }

    /// The first rule that strikes this request; each rule counts it, whether or not it strikes.
    mutating func strike(
        _ endpoint: AppleEndpoint,
        environment: StoreEnvironment,
        bundleID: String,
        externalPurchaseID: String?
    ) -> FaultRule? {
        var struck: FaultRule?
        for index in armed.indices {
            let rule = armed[index].rule
            let endpoints = rule.endpoints.isEmpty ? [.report] : rule.endpoints
            guard endpoints.contains(endpoint), rule.environment ?? environment == environment,
                rule.bundleID ?? bundleID == bundleID,
                rule.externalPurchaseID == nil || rule.externalPurchaseID == externalPurchaseID
            else { continue }
            armed[index].matchCount += 1
            if struck == nil, isDue(index) {
                armed[index].strikeCount += 1
                struck = rule
            }
        }
        return struck
    }

    private mutating func isDue(_ index: Int) -> Bool {
        let rule = armed[index].rule
        let position = armed[index].matchCount - rule.after
        guard position > 0, armed[index].strikeCount < rule.times ?? .max else { return false }
        if let every = rule.every, position % every != 0 { return false }
        if let probability = rule.probability {
            return Double.random(in: 0..<1, using: &armed[index].generator) < probability
        }
        return true
    }
}
