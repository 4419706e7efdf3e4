internal import Telemetry
internal import TokenDomain

/// A snapshot as lines of a screen.
struct TopScreen {
    /// Lines of lanes and of dead letters below their title that are shown at least, where there are
    /// as many: the names of the columns, a row, and how many more.
    private static let rowCountMin = 3

    let snapshot: TopSnapshot
    /// Characters; nil for as many as it takes.
    let width: Int?
    /// Lines; nil for as many as it takes.
    let height: Int?

    /// No more and no longer than the screen has room for.
    var lines: [String] {
        var head = [title]
        head += snapshot.troubles.map { "! " + $0 }
        head += [""] + stages
        let tail = height == nil ? [] : ["q or Ctrl-C ends"]
        let room = height.map { max($0 - head.count - tail.count, 0) }
        // Without Kafka nothing is known, and nothing is said.
        let told = snapshot.stages.isEmpty ? [] : [lanes, deadLetters]
        let blocks = (told + [instances]).filter { !$0.isEmpty }
        var body: [String] = []
        for block in Self.fit(blocks, into: room) {
            body += [""] + block
        }
        if let height {
            let blanks = height - head.count - body.count - tail.count
            body += [String](repeating: "", count: max(blanks, 0))
            return (head + body + tail).prefix(height).map(cut)
        }
        return (head + body).map(cut)
    }

    /// Blocks cut to the lines there are, a blank line before each; each keeps its title and a few
    /// rows, the last ones are dropped first, and for a third nothing is set aside.
    static func fit(_ blocks: [[String]], into room: Int?) -> [[String]] {
        guard var left = room else {
            return blocks
        }
        var fitted: [[String]] = []
        for (index, block) in blocks.enumerated() {
            // What those behind it need at least: a blank, a title and what stands below it.
            let behind = blocks[(index + 1)...].dropLast(blocks.count > 2 ? 1 : 0).reduce(0) {
                $0 + 1 + min($1.count, 1 + rowCountMin)
            }
            let share = max(left - 1 - behind, 0)
            guard share >= min(block.count, 1 + rowCountMin) else {
                continue
            }
            if block.count > share {
                let kept = block.prefix(share - 1)
                fitted.append(kept + ["  … and \(block.count - kept.count) more"])
                left -= 1 + share
            } else {
                fitted.append(block)
                left -= 1 + block.count
            }
        }
        return fitted
    }

    private func cut(_ line: String) -> String {
        let plain = PlainText.printable(line, characterCountMax: 400)
        guard let width, plain.count > width else {
            return plain
        }
        return String(plain.prefix(max(width - 1, 0))) + "…"
    }

    // MARK: Blocks

    private var title: String {
        "tollway top  \(WallClock.rfc3339(milliseconds: snapshot.at).prefix(19))Z"
            + "  Kafka \(snapshot.servers)"
    }

    /// Every topic that a worker reads, or, where the screen is too low for that, of each worker the
    /// one that is furthest behind.
    private var stageRows: [(stage: TopSnapshot.Stage, moreCount: Int)] {
        // Title, two blanks, the names of the columns, the last line, and two blocks below.
        let heightMin = snapshot.stages.count + 5 + 2 * (1 + 1 + Self.rowCountMin)
        guard let height, height < heightMin else {
            return snapshot.stages.map { ($0, 0) }
        }
        return Worker.allCases.compactMap { worker in
            let own = snapshot.stages.filter { $0.worker == worker }
            // A topic that is not there is worse than any lag.
            let furthest = own.max { ($0.lag ?? .max) < ($1.lag ?? .max) }
            return furthest.map { ($0, own.count - 1) }
        }
    }

    private var stages: [String] {
        table(
            ["STAGE", "TOPIC", "BY", "IN/S", "DONE/S", "LAG", "BEHIND"],
            numbersFrom: 2,
            stageRows.map { stage, moreCount in
                [
                    stage.worker.rawValue,
                    moreCount > 0 ? "\(stage.topic) +\(moreCount)" : stage.topic,
                    stage.memberCount.map { "\($0)" } ?? "-", Self.rate(stage.inPerSecond),
                    Self.rate(stage.donePerSecond),
                    stage.lag.map { Self.count(Double($0)) }
                        ?? (stage.partitionCount > 0 ? "not known" : "no topic"),
                    stage.lagSeconds.map { Self.span($0) } ?? "-",
                ]
            }
        )
    }

    private var lanes: [String] {
        guard snapshot.lanes.isEmpty else {
            return table(
                ["LANE", "", "TO", "STATE", "SENT/S", "LIMIT/S", "WAY", "DEADLINE", "WHY"],
                numbersFrom: 4,
                until: 8,
                snapshot.lanes.map { lane in
                    [
                        "\(lane.app)",
                        lane.environment == "production" ? "prod" : lane.environment,
                        lane.endpoint == "reports" ? "reports" : "account",
                        lane.stateText(at: snapshot.at),
                        Self.rate(lane.startedPerSecond), Self.rate(lane.allowedPerSecond),
                        "\(lane.inFlight)",
                        lane.nextDeadline.map {
                            Self.span(Double($0.subtracting(saturating: snapshot.at)) / 1_000)
                        } ?? "-",
                        lane.because ?? "",
                    ]
                }
            )
        }
        let hint = "(lanes: --admin HOST:9404 of each report)"
        let more = snapshot.isReportedAll ? "" : "so far, more are being read "
        guard let reported = snapshot.reported, !reported.isEmpty else {
            let nothing = snapshot.reported == nil ? "not known " : "nothing " + more
            return ["REPORTED, last hour: " + nothing + hint]
        }
        return ["REPORTED, last hour " + more + hint]
            + table(
                ["APP", "", "REPORTS", "A MINUTE"],
                numbersFrom: 2,
                reported.map { reported in
                    [
                        "\(reported.app)", reported.environment,
                        Self.count(Double(reported.count)), Self.rate(Double(reported.count) / 60),
                    ]
                }
            )
    }

    private var deadLetters: [String] {
        guard let count = snapshot.deadLetterTotal else {
            return ["DEAD LETTERS, open: not known"]
        }
        let total = Self.count(Double(count))
        let more = snapshot.areDeadLettersAll ? "" : " so far, more are being read"
        guard !snapshot.deadLetters.isEmpty else {
            return ["DEAD LETTERS, open: none\(more)"]
        }
        return ["DEAD LETTERS, open: \(total)\(more)"]
            + table(
                ["STAGE", "CODE", "OPEN", "NEWEST"],
                numbersFrom: 2,
                snapshot.deadLetters.map { deadLetters in
                    [
                        deadLetters.stage, deadLetters.code, Self.count(Double(deadLetters.count)),
                        Self.span(Double(max(snapshot.at - deadLetters.newest, 0)) / 1_000)
                            + " ago",
                    ]
                }
            )
    }

    private var instances: [String] {
        guard !snapshot.instances.isEmpty else {
            return []
        }
        return table(
            ["INSTANCE", "WORKER", "NAME", "READY", "PARTITIONS", "USEFUL"],
            numbersFrom: 4,
            snapshot.instances.map { instance in
                [
                    instance.address, instance.worker ?? "-", instance.name ?? "-",
                    instance.isReady.map { $0 ? "yes" : "no" } ?? "-",
                    instance.partitionCount.map { "\($0)" } ?? "-",
                    instance.usefulReplicas.map { "\($0)" } ?? "-",
                ]
            }
        )
    }

    private func table(
        _ titles: [String],
        numbersFrom: Int,
        until numbersEnd: Int = .max,
        _ rows: [[String]]
    ) -> [String] {
        var table = TextTable(
            columns: titles.enumerated().map {
                TextTable.Column(
                    title: $0.element,
                    isNumber: (numbersFrom..<numbersEnd).contains($0.offset)
                )
            }
        )
        table.rows = rows.map { cells in
            cells.enumerated().map { index, cell in
                // Nothing stands behind the last one; the screen cuts it.
                let characterCountMax = index == cells.count - 1 ? 300 : 60
                return PlainText.printable(cell, characterCountMax: characterCountMax)
            }
        }
        return table.text.split(separator: "\n").map(String.init)
    }

    // MARK: Numbers

    /// Four characters or so: `0`, `0.3`, `7.5`, `512`, `12.3k`, `4.1M`.
    static func count(_ number: Double) -> String {
        switch abs(number) {
        case ..<10_000: "\(Int(number.rounded()))"
        case ..<1_000_000: tenths(number / 1_000) + "k"
        case ..<1_000_000_000: tenths(number / 1_000_000) + "M"
        default: tenths(number / 1_000_000_000) + "G"
        }
    }

    static func rate(_ number: Double?) -> String {
        guard let number else {
            return "-"
        }
        return number < 10 && number > 0 ? tenths(number) : count(number)
    }

    /// `0s`, `42s`, `12m`, `3h20m`, `9d4h`; a deadline that passed is negative.
    static func span(_ seconds: Double) -> String {
        let sign = seconds < 0 ? "-" : ""
        let whole = Int(min(abs(seconds), 1e9).rounded())
        switch whole {
        case ..<120: return "\(sign)\(whole)s"
        case ..<7_200: return "\(sign)\(whole / 60)m"
        case ..<172_800: return "\(sign)\(whole / 3_600)h\(whole / 60 % 60)m"
        default: return "\(sign)\(whole / 86_400)d\(whole / 3_600 % 24)h"
        }
    }

    private static func tenths(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        return tenths % 10 == 0 && tenths >= 100
            ? "\(tenths / 10)" : "\(tenths / 10).\(abs(tenths % 10))"
    }
}

extension TopSnapshot.Lane {
    /// Its state, and for how long it has been paused, or until when it is held.
    func stateText(at now: Int64) -> String {
        let span =
            since.map { now.subtracting(saturating: $0) }
            ?? until.map { $0.subtracting(saturating: now) }
        return state + (span.map { " " + TopScreen.span(Double(max($0, 0)) / 1_000) } ?? "")
    }
}
