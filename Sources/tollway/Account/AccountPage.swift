internal import Telemetry
internal import TokenDomain

/// The account as it is shown.
struct AccountPage {
    let tokens: [Int64: AccountLine]
    let tokenWindow: AccountWindow
    let sales: [Int64: SalesLine]
    let salesWindow: AccountWindow
    let months: MonthCount?
    /// Sales among those of app 0 that may be any app's.
    let unnamedSalesCount: Int
    /// Empty: all.
    var apps: Set<Int64> = []

    /// Nothing that could be counted contradicts; also where nothing could be.
    var closes: Bool {
        shown(tokens).allSatisfy { $0.1.closes } && shownSales.allSatisfy { $0.1.closes }
    }

    /// Also those of app 0, where they may be of an app that was asked for.
    private var shownSales: [(Int64, SalesLine)] {
        shown(sales, besides: unnamedSalesCount > 0 ? [0] : [])
    }

    /// Apps that were asked for, and of which there is nothing to show.
    var missingApps: [Int64] {
        apps.filter { app in
            tokens[app] == nil && sales[app] == nil && months?.lines[app] == nil
        }.sorted()
    }

    private func shown<Line>(
        _ lines: [Int64: Line],
        besides others: Set<Int64> = []
    ) -> [(Int64, Line)] {
        lines.filter { apps.isEmpty || apps.union(others).contains($0.key) }
            .sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    func text(_ format: OutputFormat) -> String {
        switch format {
        case .table: table
        case .ndjson: objects.map { $0 + "\n" }.joined()
        case .json:
            JSONLines.object([
                ("accounts", JSONLines.list(objects)), ("closes", "\(closes)"),
            ]) + "\n"
        }
    }

    // MARK: For a person

    private var table: String {
        var text = "tokens that came in \(Self.span(tokenWindow))\n"
        text += note(tokenWindow.shortened)
        text += tokenTable
        for (app, line) in shown(tokens) {
            for (stage, count) in line.differences {
                let what =
                    count < 0
                    ? "\(-count) came out of \(stage) that never came in"
                    : "\(count) came into \(stage) and did not come out"
                text += "app \(app): \(what)\n"
            }
        }
        // Sales that cannot be counted must not look like no sales.
        if !sales.isEmpty || salesWindow.shortened != nil {
            text += "\nsales that came in \(Self.span(salesWindow))\n"
            text += note(salesWindow.shortened)
            text += salesTable
            for (app, line) in shownSales {
                for (_, count) in line.differences {
                    let what =
                        count < 0
                        ? CountText.of(-count, "is", "are") + " in the ledger and never came in"
                        : CountText.of(count, "was", "were")
                            + " read and found in no ledger, state or dead letter"
                    text += "app \(app): \(what)\n"
                }
            }
        }
        if let months {
            text += "\n" + monthTable(months)
        }
        return text
    }

    private func note(_ sentence: String?) -> String {
        sentence.map { PlainText.printable($0, characterCountMax: 400) + "\n" } ?? ""
    }

    private static func span(_ window: AccountWindow) -> String {
        let to = time(window.to)
        return window.from.milliseconds == 0
            ? "before \(to)" : "from \(time(window.from)) to \(to)"
    }

    private static func time(_ time: Timestamp) -> String {
        String(WallClock.rfc3339(milliseconds: time.milliseconds).prefix(16)) + "Z"
    }

    private var tokenTable: String {
        var table = TextTable(
            columns: [
                "APP", "ACCEPTED", "= REPEATS", "+ DEAD", "+ REPORTED", "+ HELD", "+ ON THE WAY",
            ].map { TextTable.Column(title: $0, isNumber: true) } + [.init(title: "IT")]
        )
        table.rows = shown(tokens).map { app, line in
            [app, Int64(line.accepted), Int64(line.repeats), Int64(line.deadLetters)]
                .map { "\($0)" }
                + ["\(line.reported)", "\(line.held)", "\(line.onTheWay)"]
                + [line.closes ? "closes" : "DIFFERS"]
        }
        return table.rows.isEmpty ? "none\n" : table.text
    }

    private var salesTable: String {
        var table = TextTable(
            columns: [
                "APP", "RECEIVED", "= REPEATS", "+ REPORTED", "+ NOT OWED", "+ DEAD", "+ HELD",
                "+ ON THE WAY",
            ].map { TextTable.Column(title: $0, isNumber: true) } + [.init(title: "IT")]
        )
        table.rows = shownSales.map { app, line in
            [
                "\(app)", "\(line.received)", "\(line.repeats)", "\(line.reported)",
                "\(line.notOwed)", "\(line.deadLetters)", "\(line.held)", "\(line.onTheWay)",
                line.closes ? "closes" : "DIFFERS",
            ]
        }
        return table.rows.isEmpty ? "none\n" : table.text
    }

    private func monthTable(_ months: MonthCount) -> String {
        var text =
            "tokens of \(MonthText.of(months.month)) (UTC), due at Apple"
            + " \(Self.time(months.deadline))\n"
        text += note(months.cannotKnow)
        var table = TextTable(
            columns: [
                "APP", "ACTIVE", "= REPORTED", "+ OWED", "+ OWES NONE", "WITH SALES", "REFUSED",
                "LATE REPORTS",
            ].map { TextTable.Column(title: $0, isNumber: true) }
        )
        table.rows = shown(months.lines).map { app, line in
            [
                "\(app)", "\(line.active)", "\(line.reported)", "\(line.owed)",
                "\(line.owesNone)", "\(line.withSales)", "\(line.refused)", "\(line.late)",
            ]
        }
        text += table.rows.isEmpty ? "none\n" : table.text
        if months.sandboxCount > 0 {
            text +=
                CountText.of(
                    months.sandboxCount,
                    "token of the sandbox is",
                    "tokens of the sandbox are"
                )
                + " not counted: Apple wants no report of them by a date\n"
        }
        return text
    }

    // MARK: For a program

    private var objects: [String] {
        shown(tokens).map { tokenObject($0, $1) } + shownSales.map { salesObject($0, $1) }
            + (months.map { months in
                shown(months.lines).map { monthObject($0, $1, months) }
            } ?? []) + windowObjects
    }

    /// What cannot be known of each span, also where no line says it.
    private var windowObjects: [String] {
        [("tokens", tokenWindow), ("sales", salesWindow)].filter { $1.shortened != nil }.map {
            JSONLines.object(Fact.text("of", "window") + Fact.text("what", $0) + Self.window($1))
        } + [months].compactMap(\.self).filter { $0.cannotKnow != nil }.map(monthWindow)
    }

    private func monthWindow(_ months: MonthCount) -> String {
        JSONLines.object(
            Fact.text("of", "window") + Fact.text("what", "month")
                + Fact.text("month", MonthText.of(months.month))
                + Fact.number("from", months.month.start.milliseconds)
                + Fact.number("to", months.month.adding(1).start.milliseconds)
                + Fact.text("cannotKnow", months.cannotKnow)
        )
    }

    private func tokenObject(_ app: Int64, _ line: AccountLine) -> String {
        JSONLines.object(
            Fact.text("of", "tokens") + Fact.number("appAppleId", app)
                + Self.window(tokenWindow)
                + Fact.number("accepted", Int64(line.accepted))
                + Fact.number("repeats", Int64(line.repeats))
                + Fact.number("deadLetters", Int64(line.deadLetters))
                + Fact.number("reported", Int64(line.reported))
                + Fact.number("held", Int64(line.held))
                + Fact.number("onTheWay", Int64(line.onTheWay))
                + Self.verdict(line.closes, line.differences)
        )
    }

    private static func verdict(
        _ closes: Bool,
        _ differences: [(stage: String, count: Int)]
    ) -> [(name: String, json: String)] {
        let objects = differences.map { stage, count in
            JSONLines.object(Fact.text("stage", stage) + Fact.number("count", Int64(count)))
        }
        return [("closes", "\(closes)"), ("differences", JSONLines.list(objects))]
    }

    private func salesObject(_ app: Int64, _ line: SalesLine) -> String {
        JSONLines.object(
            Fact.text("of", "sales") + Fact.number("appAppleId", app) + Self.window(salesWindow)
                + Fact.number("received", Int64(line.received))
                + Fact.number("repeats", Int64(line.repeats))
                + Fact.number("reported", Int64(line.reported))
                + Fact.number("notOwed", Int64(line.notOwed))
                + Fact.number("deadLetters", Int64(line.deadLetters))
                + Fact.number("held", Int64(line.held))
                + Fact.number("onTheWay", Int64(line.onTheWay))
                + Self.verdict(line.closes, line.differences)
        )
    }

    private func monthObject(_ app: Int64, _ line: MonthLine, _ months: MonthCount) -> String {
        JSONLines.object(
            Fact.text("of", "month") + Fact.number("appAppleId", app)
                + Fact.text("month", MonthText.of(months.month))
                + Fact.number("deadline", months.deadline.milliseconds)
                + Fact.number("active", Int64(line.active))
                + Fact.number("reported", Int64(line.reported))
                + Fact.number("withSales", Int64(line.withSales))
                + Fact.number("owed", Int64(line.owed))
                + Fact.number("owesNone", Int64(line.owesNone))
                + Fact.number("refused", Int64(line.refused))
                + Fact.number("lateReports", Int64(line.late))
                + Fact.text("cannotKnow", months.cannotKnow)
        )
    }

    private static func window(_ window: AccountWindow) -> [(name: String, json: String)] {
        Fact.number("from", window.from.milliseconds) + Fact.number("to", window.to.milliseconds)
            + Fact.text("cannotKnow", window.shortened)
    }
}
