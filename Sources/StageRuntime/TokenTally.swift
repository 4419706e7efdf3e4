/// What became of the tokens that came in, by app: the account that must always close.
///
///     accepted = repeat + dead_letter + reported + what is held
///
/// `decode` counts as accepted what it reads, for only there the app is known; a dead letter that is
/// replayed is accepted once more. Counted when the transaction is known to be committed, so that
/// what is done again after an abort counts once.
package struct TokenTally: Equatable, Sendable {
    package enum Fate: String, CaseIterable, Sendable {
        case accepted
        case repeated = "repeat"
        case deadLetter = "dead_letter"
        case reported

        /// Of a token's record that was settled without an output; nil where it is held from now on.
        init?(settledFor reason: StaticReason) {
            switch reason.text {
            case "repeat", "owner_conflict": self = .repeated
            case "already_reported": self = .reported
            default: return nil
            }
        }
    }

    /// Stands for the app of a token that could not be read, or that is none of ours.
    package static let unknownApp: Int64 = 0

    private var counts: [Int64: [Fate: Int64]] = [:]

    package init() {}

    package mutating func add(_ fate: Fate, app: Int64) {
        counts[app, default: [:]][fate, default: 0] += 1
    }

    package mutating func merge(_ other: TokenTally) {
        for (app, fates) in other.counts {
            counts[app, default: [:]].merge(fates, uniquingKeysWith: +)
        }
    }

    package func count(of fate: Fate, app: Int64) -> Int64 { counts[app]?[fate] ?? 0 }

    package func forEach(_ body: (Fate, _ app: Int64, _ count: Int64) -> Void) {
        for (app, fates) in counts {
            for (fate, count) in fates {
                body(fate, app, count)
            }
        }
    }
}
