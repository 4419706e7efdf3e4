internal import Telemetry

/// How far a change is: a bar that draws over itself, on a terminal only.
struct ReplayBar {
    private static let width = 24
    private static let againMilliseconds: Int64 = 100

    let isTerminal: Bool
    let goal: Int
    private let startedAt = WallClock.monotonicMilliseconds()
    private var shownAt: Int64 = 0

    init(goal: Int, isTerminal: Bool = Console.errorIsTerminal) {
        self.goal = goal
        self.isTerminal = isTerminal
    }

    mutating func show(_ count: Int) {
        let now = WallClock.monotonicMilliseconds()
        guard isTerminal, now - shownAt >= Self.againMilliseconds else {
            return
        }
        shownAt = now
        Console.sayRaw("\r\u{1b}[K" + line(count, elapsedMilliseconds: now - startedAt))
    }

    mutating func end() {
        if shownAt > 0 {
            Console.sayRaw("\r\u{1b}[K")
            shownAt = 0
        }
    }

    /// At most 79 characters for counts up to a billion.
    func line(_ count: Int, elapsedMilliseconds: Int64) -> String {
        let share = goal > 0 ? min(1, Double(count) / Double(goal)) : 1
        let full = Int((share * Double(Self.width)).rounded(.down))
        let bar =
            String(repeating: "#", count: full)
            + String(repeating: ".", count: Self.width - full)
        let rate = Double(count) * 1_000 / Double(max(elapsedMilliseconds, 1))
        let left = rate > 0 ? ReplayPlanText.time(Double(goal - count) / rate) : "-"
        return "[\(bar)] \(count)/\(goal) \(Int(share * 100))% \(Int(rate))/s \(left) left"
    }
}
