internal import Telemetry

/// One thing that was looked at.
struct DoctorFinding: Equatable {
    enum Verdict: String {
        case ok
        /// It works, and somebody should know.
        case warning
        case failed
        /// It could not be looked at.
        case skipped
    }

    /// What is looked at, in the order of the report.
    enum Area: String, CaseIterable {
        case configuration, keys, state, clock, kafka, topics, rights, stages, transactions, apple
        case notifications
    }

    var area: Area
    var verdict: Verdict
    /// One sentence: what was found.
    var sentence: String
    /// What to do about it; for what is not right.
    var repair: String?

    static func ok(_ area: Area, _ sentence: String) -> DoctorFinding {
        DoctorFinding(area: area, verdict: .ok, sentence: sentence)
    }

    static func warning(_ area: Area, _ sentence: String, _ repair: String) -> DoctorFinding {
        DoctorFinding(area: area, verdict: .warning, sentence: sentence, repair: repair)
    }

    static func failed(_ area: Area, _ sentence: String, _ repair: String) -> DoctorFinding {
        DoctorFinding(area: area, verdict: .failed, sentence: sentence, repair: repair)
    }

    static func skipped(_ area: Area, _ sentence: String) -> DoctorFinding {
        DoctorFinding(area: area, verdict: .skipped, sentence: sentence)
    }

    var text: String {
        func shown(_ text: String) -> String {
            PlainText.printable(text, characterCountMax: 400)
        }
        var line = verdict.rawValue.padding(8) + area.rawValue.padding(14) + shown(sentence) + "\n"
        if let repair {
            line += "".padding(8) + "repair".padding(14) + shown(repair) + "\n"
        }
        return line
    }

    var json: String {
        JSONLines.object(
            [
                ("area", JSONText.quoted(area.rawValue)),
                ("verdict", JSONText.quoted(verdict.rawValue)),
                ("finding", JSONText.quoted(sentence)),
            ] + (repair.map { [("repair", JSONText.quoted($0))] } ?? [])
        )
    }
}

extension String {
    fileprivate func padding(_ width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
