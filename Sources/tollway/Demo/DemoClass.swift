/// What kinds of input the demo streams in; each is a row of the account.
enum DemoClass: String, CaseIterable {
    case samples = "Apple's published samples"
    case plain = "plain tokens"
    case sharedDates = "two customers, same dates"
    case services = "SERVICES tokens"
    case acquisition = "ACQUISITION tokens"
    case beside = "ACQUISITION beside SERVICES"
    case otherTypes = "other and unknown types"
    case links = "link URLs"
    case direct = "written to Kafka directly"
    case duplicates = "duplicates within a period"
    case repeats = "repeats"
    case sold = "tokens of buyers"
    case undecodable = "undecodable"
    case unreportedKnown = "UNREPORTED notices, known"
    case unreportedUnknown = "UNREPORTED notices, unknown"
    case forged = "forged notices"
}

/// Where one input goes in.
enum DemoDelivery {
    /// One object for `POST /v1/tokens`.
    case door(line: String)
    /// A record of `tokens.received.v1`, as a high-volume platform writes it.
    case topic(value: String)
    /// Apple's notice about a token, signed and delivered by the simulator.
    case notice(externalPurchaseID: String)
    /// A notice of the same shape that Apple never signed.
    case forgedNotice(externalPurchaseID: String)
}

/// How the inputs must end: the generator's expectation, made with them.
struct DemoTruth {
    struct Report: Equatable {
        var status: String
        var demoClass: DemoClass
    }

    /// The one report of each token, by `externalPurchaseId`.
    var reports: [String: Report] = [:]
    /// How many dead letters there must be, by `<worker> <code>`.
    var deadLetters: [String: Int] = [:]
    /// How many inputs of each class went in.
    var inputs: [DemoClass: Int] = [:]
    /// Dead letters by class, for the rows of the account.
    var deadLettersByClass: [DemoClass: Int] = [:]

    mutating func count(_ demoClass: DemoClass) {
        inputs[demoClass, default: 0] += 1
    }

    mutating func expectDeadLetter(_ code: String, worker: String, _ demoClass: DemoClass) {
        deadLetters["\(worker) \(code)", default: 0] += 1
        deadLettersByClass[demoClass, default: 0] += 1
    }
}
