internal import Telemetry

/// How far something long is: a line that draws over itself, on a terminal only and not in the first
/// second.
final class ProgressLine {
    private static let barWidth = 24
    private static let firstMilliseconds: Int64 = 1_000
    private static let againMilliseconds: Int64 = 200

    private let what: String
    private let startedAt = WallClock.monotonicMilliseconds()
    private var shownAt: Int64 = 0
    private var count = 0

    /// Nil where standard error is no terminal.
    init?(_ what: String = "") {
        guard Console.errorIsTerminal else {
            return nil
        }
        self.what = what
    }

    deinit {
        end()
    }

    func end() {
        if shownAt > 0 {
            Console.sayRaw("\r\u{1b}[K")
            shownAt = 0
        }
    }

    /// So many more were read.
    func add(_ more: Int) {
        count += more
        draw { "\(count) \(what) read, \(count * 1_000 / $0)/s" }
    }

    func show(_ done: Int, _ detail: String) {
        draw { "\(done) \(what), \(done * 1_000 / $0)/s, \(detail)" }
    }

    /// A bar, where it is known how much there is.
    ///
    /// Without what it counts at most 79 characters, for counts up to a billion.
    func show(_ done: Int, of goal: Int) {
        draw { elapsedMilliseconds in
            let share = goal > 0 ? min(1, Double(done) / Double(goal)) : 1
            let full = Int((share * Double(Self.barWidth)).rounded(.down))
            let bar =
                String(repeating: "#", count: full)
                + String(repeating: ".", count: Self.barWidth - full)
            let rate = Double(done) * 1_000 / Double(elapsedMilliseconds)
            let left = rate > 0 ? ReplayPlanText.time(Double(goal - done) / rate) : "-"
            return "[\(bar)] \(done)/\(goal) \(Int(share * 100))% \(Int(rate))/s \(left) left"
                + (what.isEmpty ? "" : " \(what)")
        }
    }

    private func draw(_ text: (_ elapsedMilliseconds: Int) -> String) {
        let now = WallClock.monotonicMilliseconds()
        guard now - startedAt >= Self.firstMilliseconds, now - shownAt >= Self.againMilliseconds
        else {
            return
        }
        shownAt = now
        Console.sayRaw("\r\u{1b}[K" + text(Int(now - startedAt)))
    }
}
