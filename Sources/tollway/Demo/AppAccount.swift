/// How one app's tokens ended, by the workers' own metrics: `tollway_tokens_total` of all stages,
/// and what `report` holds.
struct AppAccount: Equatable {
    /// As the metrics name it: its Apple id, or `unknown`.
    var app: String
    var accepted = 0
    var repeats = 0
    var deadLetters = 0
    var reported = 0
    var held = 0

    init(app: String, pages: [String]) {
        self.app = app
        func sum(_ name: String, _ labels: [String] = []) -> Int {
            pages.reduce(0) { $0 + DemoCounts.sum($1, name, ["app=\"\(app)\""] + labels) }
        }
        accepted = sum("tollway_tokens_total", ["fate=\"accepted\""])
        repeats = sum("tollway_tokens_total", ["fate=\"repeat\""])
        deadLetters = sum("tollway_tokens_total", ["fate=\"dead_letter\""])
        reported = sum("tollway_tokens_total", ["fate=\"reported\""])
        held = sum("tollway_report_held")
    }

    var closes: Bool { accepted == repeats + deadLetters + reported + held }

    var line: String {
        "app \(app): accepted \(accepted) = repeats \(repeats) + dead letters \(deadLetters)"
            + " + reported \(reported) + held \(held)" + (closes ? "" : "  DIFFERS")
    }

    var json: [String: Any] {
        [
            "app": app, "accepted": accepted, "repeats": repeats, "deadLetters": deadLetters,
            "reported": reported, "held": held, "closes": closes,
        ]
    }
}
