/// How the tokens that came in ended, counted by app: the account that must always close.
///
///     accepted = repeat + dead_letter + reported + what is held
///
/// `decode` counts as accepted what it reads, for only there the app is known; a dead letter that is
/// replayed is accepted once more, by the worker that takes it. Counted when the transaction is known
/// to be committed, so that what is done again after an abort counts once.
package struct TokenTally: Equatable, Sendable {
    package enum Fate: String, CaseIterable, Sendable {
        case accepted
        case repeated = "repeat"
        case deadLetter = "dead_letter"
        case reported

        /// Its place in `allCases`.
        fileprivate var index: Int {
            switch self {
            case .accepted: 0
            case .repeated: 1
            case .deadLetter: 2
            case .reported: 3
            }
        }

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

    /// The counts of one app, by the fate's place among all.
    private struct Row: Equatable, Sendable {
        var app: Int64
        var counts = [Int64](repeating: 0, count: Fate.allCases.count)
    }

    private var rows: [Row] = []
    /// Records in a row are mostly of one app.
    private var last = 0

    package init() {}

    package static func == (one: TokenTally, other: TokenTally) -> Bool {
        one.rows.sorted { $0.app < $1.app } == other.rows.sorted { $0.app < $1.app }
    }

    package mutating func add(_ fate: Fate, app: Int64) {
        add(1, at: fate.index, app: app)
    }

    private mutating func add(_ count: Int64, at index: Int, app: Int64) {
        if last >= rows.count || rows[last].app != app {
            last = rows.firstIndex { $0.app == app } ?? rows.count
            if last == rows.count {
                rows.append(Row(app: app))
            }
        }
        rows[last].counts[index] += count
    }

    package mutating func merge(_ other: TokenTally) {
        for row in other.rows {
            for (index, count) in row.counts.enumerated() where count != 0 {
                add(count, at: index, app: row.app)
            }
        }
    }

    package func count(of fate: Fate, app: Int64) -> Int64 {
        rows.first { $0.app == app }?.counts[fate.index] ?? 0
    }

    package func forEach(_ body: (Fate, _ app: Int64, _ count: Int64) -> Void) {
        for row in rows {
            for fate in Fate.allCases where row.counts[fate.index] != 0 {
                body(fate, row.app, row.counts[fate.index])
            }
        }
    }
}
