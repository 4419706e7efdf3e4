/// The pipeline, once: its stages and topics in the order in which a token passes them.
///
///     ingest ─▶ received ─▶ decode ─▶ decoded ─▶ dedupe ─▶ distinct ─▶ report ─▶ Apple, outcomes
///       ├─▶ notified ─▶ notifications ─▶ verified ─────────────────────┤
///       └─▶ sales ────▶ purchases, with decoded ─▶ reports.requested ──┘
///     report ─▶ purchases.answered, tokens.refused ─▶ purchases, dedupe
///     every stage ─▶ dlq.<stage>
package enum Worker: String, Sendable, CaseIterable {
    case ingest, decode, dedupe, report, notifications, purchases

    /// Its consumer group under a prefix, such as `tollway.decode`.
    ///
    /// The prefix is the configured one, its dot included.
    package func group(prefix: String) -> String { "\(prefix)\(rawValue)" }

    /// The topics it reads, in the order in which `Record.topic` counts them.
    package var sources: [Topic] {
        switch self {
        case .ingest: []
        case .decode: [.tokensReceived]
        case .dedupe: [.tokensDecoded, .tokensRefused]
        case .report:
            [.tokensDistinct, .notificationsVerified, .reportsRequested, .accountTokensRequested]
        case .notifications: [.notificationsReceived]
        case .purchases: [.purchasesReceived, .tokensDecoded, .tokensRefused, .purchasesAnswered]
        }
    }

    /// The topics it follows whole, in every instance and outside its group: orders by hand.
    package var follows: [Topic] {
        switch self {
        case .report: [.laneOrders]
        case .ingest, .decode, .dedupe, .notifications, .purchases: []
        }
    }

    /// The topics it writes besides its changelog and its dead letters.
    package var targets: [Topic] {
        switch self {
        case .ingest:
            [.tokensReceived, .notificationsReceived, .accountTokensRequested, .purchasesReceived]
        case .decode: [.tokensDecoded, .tokensDistinct]
        case .dedupe: [.tokensDistinct]
        case .report:
            [.reportsOutcomes, .accountTokensOutcomes, .purchasesAnswered, .tokensRefused]
        case .notifications: [.notificationsVerified, .notificationsOther]
        case .purchases: [.reportsRequested, .purchasesOutcomes]
        }
    }

    /// Where a topic stands among ``targets``, which is how an output names it.
    package func targetIndex(of topic: Topic) -> Int {
        guard let index = targets.firstIndex(of: topic) else {
            preconditionFailure("\(rawValue) writes \(topic)")
        }
        return index
    }

    /// The changelog of its state, where it has any.
    package var changelog: Topic? {
        switch self {
        case .dedupe: .dedupeState
        case .report: .reportState
        case .purchases: .purchasesState
        case .ingest, .decode, .notifications: nil
        }
    }

    /// Where what it cannot use goes; `ingest` refuses at the door instead.
    package var deadLetters: Topic? {
        switch self {
        case .ingest: nil
        case .decode: .deadLetters(.decode)
        case .dedupe: .deadLetters(.dedupe)
        case .report: .deadLetters(.report)
        case .notifications: .deadLetters(.notifications)
        case .purchases: .deadLetters(.purchases)
        }
    }

    /// The default port of its admin listener on loopback.
    package var adminPort: UInt16 {
        switch self {
        case .ingest: 9401
        case .decode: 9402
        case .dedupe: 9403
        case .report: 9404
        case .notifications: 9405
        case .purchases: 9406
        }
    }
}

/// A topic of the pipeline, without the configured prefix.
package enum Topic: Hashable, Sendable {
    case tokensReceived
    case tokensDecoded
    case tokensDistinct
    /// Tokens that Apple does not know, by the purchase key.
    case tokensRefused
    case notificationsReceived
    case notificationsVerified
    /// Genuine notifications that are about no token.
    case notificationsOther
    /// Sales, by the purchase key.
    case purchasesReceived
    /// What Apple answered to reports that carry sales, by the purchase key.
    case purchasesAnswered
    /// The ledger of sales, by the purchase key.
    case purchasesOutcomes
    case reportsRequested
    case reportsOutcomes
    case accountTokensRequested
    case accountTokensOutcomes
    /// Lanes of `report` that somebody paused, resumed or reset.
    case laneOrders
    case dedupeState
    case reportState
    case purchasesState
    case deadLetters(Worker)
    case deadLetterReplays
    /// Dead letters that somebody gave up.
    case deadLetterArchive
    /// Who changed what by hand, when and why.
    case audit

    /// Every topic that a deployment has, in the order of the pipeline.
    package static var all: [Topic] {
        [
            .tokensReceived, .tokensDecoded, .tokensDistinct, .tokensRefused,
            .notificationsReceived, .notificationsVerified, .notificationsOther,
            .purchasesReceived, .purchasesAnswered, .purchasesOutcomes, .reportsRequested,
            .reportsOutcomes, .accountTokensRequested, .accountTokensOutcomes, .laneOrders,
            .dedupeState, .reportState, .purchasesState, .deadLetters(.decode),
            .deadLetters(.dedupe), .deadLetters(.report), .deadLetters(.notifications),
            .deadLetters(.purchases), .deadLetterReplays, .deadLetterArchive, .audit,
        ]
    }

    /// Its full name under a prefix, such as `tollway.tokens.received.v1`.
    ///
    /// The prefix is the configured one, its dot included.
    package func name(prefix: String) -> String {
        switch self {
        case .tokensReceived: "\(prefix)tokens.received.v1"
        case .tokensDecoded: "\(prefix)tokens.decoded.v1"
        case .tokensDistinct: "\(prefix)tokens.distinct.v1"
        case .tokensRefused: "\(prefix)tokens.refused.v1"
        case .notificationsReceived: "\(prefix)notifications.received.v1"
        case .notificationsVerified: "\(prefix)notifications.verified.v1"
        case .notificationsOther: "\(prefix)notifications.other.v1"
        case .purchasesReceived: "\(prefix)purchases.received.v1"
        case .purchasesAnswered: "\(prefix)purchases.answered.v1"
        case .purchasesOutcomes: "\(prefix)purchases.outcomes.v1"
        case .reportsRequested: "\(prefix)reports.requested.v1"
        case .reportsOutcomes: "\(prefix)reports.outcomes.v1"
        case .accountTokensRequested: "\(prefix)account-tokens.requested.v1"
        case .accountTokensOutcomes: "\(prefix)account-tokens.outcomes.v1"
        case .laneOrders: "\(prefix)lanes.control.v1"
        case .dedupeState: "\(prefix)dedupe.state.v1"
        case .reportState: "\(prefix)report.state.v1"
        case .purchasesState: "\(prefix)purchases.state.v1"
        case .deadLetters(let worker): "dlq.\(prefix)\(worker.rawValue)"
        case .deadLetterReplays: "dlq.\(prefix)replays.v1"
        case .deadLetterArchive: "dlq.\(prefix)archive.v1"
        case .audit: "\(prefix)audit.v1"
        }
    }
}

extension Topic {
    /// How long a topic keeps a record, and by which cleanup policy.
    package enum Retention: Equatable, Sendable {
        /// Long enough for a worker to be repaired and to catch up.
        case sevenDays
        /// Long enough for a person to look at it.
        case thirtyDays
        /// What proves something; never compacted.
        case forEver
        /// Compacted: the newest record of each key for ever, tombstones for seven days.
        case newestOfKey
        /// Compacted, and each record for longer than a dead letter can lie in its topic.
        case newestOfKeyOutlivingDeadLetters
    }

    package var retention: Retention {
        switch self {
        case .tokensReceived, .tokensDecoded, .tokensDistinct, .tokensRefused,
            .notificationsReceived, .notificationsVerified, .notificationsOther,
            .purchasesReceived, .purchasesAnswered, .reportsRequested, .accountTokensRequested:
            .sevenDays
        case .reportsOutcomes, .purchasesOutcomes, .accountTokensOutcomes, .deadLetterArchive,
            .audit:
            .forEver
        case .dedupeState, .reportState, .purchasesState, .laneOrders: .newestOfKey
        case .deadLetterReplays: .newestOfKeyOutlivingDeadLetters
        case .deadLetters: .thirtyDays
        }
    }
}
