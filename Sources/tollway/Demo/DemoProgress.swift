internal import Foundation

/// What the stages have done so far, read from their own metrics.
struct DemoCounts: Equatable {
    var received = 0
    var decoded = 0
    var distinct = 0
    var reported = 0
    var deadLetters = 0
    /// Notices that the door took for forged.
    var refusedNotices = 0
    /// Tokens that were known already, to dedupe or to report.
    var repeats = 0
    /// Sales that ended, whatever their end.
    var settledSales = 0

    /// Sums every sample of a metric whose labels hold all the given pairs.
    static func sum(_ text: String, _ name: String, _ pairs: [String] = []) -> Int {
        text.split(separator: "\n").reduce(0) { sum, line in
            guard line.hasPrefix(name + "{") || line.hasPrefix(name + " "),
                pairs.allSatisfy({ line.contains($0) }),
                let value = line.split(separator: " ").last.flatMap({ Double($0) })
            else {
                return sum
            }
            return sum + Int(value)
        }
    }
}

/// Bars in a terminal, a plain line a second elsewhere; nothing where the output is data.
struct DemoProgress {
    private static let barWidth = 32

    let isTerminal: Bool
    var goals: DemoCounts
    private let startedAt = Date()
    private var lastLineAt = Date.distantPast
    private var last = DemoCounts()
    private var hasDrawn = false

    init(isTerminal: Bool, goals: DemoCounts) {
        self.isTerminal = isTerminal
        self.goals = goals
    }

    /// Whether it is time to look again: asking the workers costs more than drawing.
    var isDue: Bool { Date().timeIntervalSince(lastLineAt) >= (isTerminal ? 0.2 : 1) }

    /// A later sale of a token is one report more.
    private var reportsOwed: String { "of at least \(goals.reported)" }

    mutating func show(_ counts: DemoCounts) {
        guard isDue else {
            return
        }
        let now = Date()
        let elapsed = now.timeIntervalSince(lastLineAt)
        let rate = hasDrawn ? Double(counts.reported - last.reported) / elapsed : 0
        if isTerminal {
            draw(counts)
        } else {
            Console.say(
                "\(Int(now.timeIntervalSince(startedAt))) s: received \(counts.received)"
                    + ", decoded \(counts.decoded), distinct \(counts.distinct)"
                    + ", reported \(counts.reported) \(reportsOwed)"
                    + ", dead letters \(counts.deadLetters)"
                    + ", sales settled \(counts.settledSales) of \(goals.settledSales)"
                    + ", \(Int(rate)) reports/s"
            )
        }
        hasDrawn = true
        last = counts
        lastLineAt = now
    }

    private func draw(_ counts: DemoCounts) {
        let seconds = max(Date().timeIntervalSince(startedAt), 0.001)
        let rows: [(String, Int, Int, String?)] = [
            ("received", counts.received, goals.received, nil),
            ("decoded", counts.decoded, goals.decoded, nil),
            ("distinct", counts.distinct, goals.distinct, nil),
            ("reported", counts.reported, goals.reported, reportsOwed),
            ("dead letters", counts.deadLetters, goals.deadLetters, nil),
            ("sales", counts.settledSales, goals.settledSales, nil),
        ]
        var text = hasDrawn ? "\u{1b}[\(rows.count)A" : ""
        for (name, count, goal, owed) in rows {
            let share = goal == 0 ? 1 : min(Double(count) / Double(goal), 1)
            let filled = Int(share * Double(Self.barWidth))
            let bar =
                String(repeating: "█", count: filled)
                + String(repeating: "░", count: Self.barWidth - filled)
            let label = name.padding(toLength: 13, withPad: " ", startingAt: 0)
            let number = String(count)
            let pad = String(repeating: " ", count: max(8 - number.count, 0))
            text +=
                "\u{1b}[2K\(label) \(bar) \(pad)\(number) \(owed ?? "of \(goal)")"
                + "  \(Int(Double(count) / seconds))/s\n"
        }
        Console.sayRaw(text)
    }
}
