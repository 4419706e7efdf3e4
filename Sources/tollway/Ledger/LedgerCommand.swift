internal import StageRuntime
internal import Telemetry

/// `tollway ledger export`: what was reported to Apple, with its amounts, and what not, for finance
/// and audit.
enum LedgerCommand {
    static let export = Verb(
        words: ["ledger", "export"],
        summary: "reports with amounts and lateness, sales not reported; totals per currency",
        options: LedgerSelection.options + [
            .flag("--totals", "the totals alone, a row for each app, environment and currency")
        ],
        details: """
            CSV by default (-o csv), after RFC 4180, in UTF-8; a cell that a spreadsheet would run
            as a formula gets an apostrophe, and a control character is shown as U+FFFD. The header
            names units: amounts are Apple's integers, thousandths of the reporting currency, and
            times are UTC. -o ndjson has Apple's names, UNIX milliseconds, and the totals as objects
            of kind "total" at the end; -o json is one document.
            A row is a report without line items (report), one line item of a report (line_item), or
            a sale that was not reported: not owed, or a dead letter (sale); one that is reported
            after all has its line_item row as well.
            A line item belongs to the month of its sale, whenever it was reported (--by told: to
            the month in which Apple accepted it); another report to that in which it was settled.
            A sale that is not owed has no amounts, nor has one that was refused before it became a
            line item: it belongs to the month in which it came in (--by told: was settled).
            superseded: a later report restates it. repeated: the ledger has the same accepted
            report (request identifier, token, status) in another record as well; those with other
            content are counted apart: run ledger verify. The totals count each accepted report
            once, and the newest version of each line item, without retracted ones; unsummed are
            those whose amounts are no whole numbers. The totals go to standard error as well, with
            their decimal point.
            deadline_utc of a new sale is that of its own month; of a restatement, and of a report
            without line items, it is the report's, the earliest of its token and its sales.
            late_by_seconds is 0 for what was in time; reports of older versions of Tollway do not
            say. How many reports were late is of production alone, as the sandbox has no deadline;
            with --month (by the sale) as account --month counts it: reports for the month, also
            those that have their row in another one, and reports with sales of it.
            Reads the ledger twice, from the month on to where the first reading ends. Memory is
            some 150 MB, 2 bytes more for each record read (at most 1 GiB), and 60 MB more at a
            million restatements; with --month 16 to 32 bytes for each report that was late.
            Exit 1 if a record could not be read, 3 if nothing matches, 6 without Kafka, 75 if a
            transaction in the ledger does not end.
            """,
        writesCSV: true,
        run: export
    )

    private static func export(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let configuration = try KafkaQuestion.configuration()
        let selection = try LedgerSelection(invocation, configuration)
        var reader = LedgerReader(configuration, selection)
        let corrections = try LedgerCorrections(&reader)
        let unreadableBefore = reader.unreadableCount
        try reader.lostBeginnings().forEach { Console.say($0) }
        if let sentence = try reader.missingSales() {
            Console.say(sentence)
        }
        var totals = LedgerTotals(selection)
        let isTotalsOnly = invocation.has("--totals")
        var writer = LedgerWriter(format: invocation.output, isTotalsOnly: isTotalsOnly)
        writer.begin()
        try reader.rows(corrections, eachReport: { totals.take($0, $1) }) {
            row throws(CommandFailure) in
            totals.add(row)
            writer.add(row)
        }
        writer.end(totals)
        // The first reading looked into few records; the second into all.
        let unreadable = reader.unreadableCount - unreadableBefore
        let areAllRead = unreadable == 0 && reader.unreadableItemCount == 0
        if totals.isEmpty, areAllRead {
            Console.say("nothing in the ledger matches")
            return .nothingMatched
        }
        let table = totals.table
        if !table.isEmpty {
            Console.say(selection.sentence)
            Console.say(String(table.dropLast()))
        }
        totals.notes.forEach { Console.say($0) }
        guard areAllRead else {
            Console.say(
                CountText.of(unreadable, "record") + " and the line items of "
                    + CountText.of(reader.unreadableItemCount, "report")
                    + " cannot be read: they are not in the totals"
            )
            return .failed
        }
        return .ok
    }
}

/// Rows as they go to standard output, in chunks.
struct LedgerWriter {
    /// A row is 200 to 600 bytes.
    private static let chunkByteCount = 1 << 16

    let format: OutputFormat
    let isTotalsOnly: Bool
    private var chunk = ""
    private var isFirst = true

    init(format: OutputFormat, isTotalsOnly: Bool) {
        self.format = format
        self.isTotalsOnly = isTotalsOnly
    }

    mutating func begin() {
        switch format {
        case .table where !isTotalsOnly: chunk += LedgerRow.header
        case .json: chunk += isTotalsOnly ? "{" : "{\"rows\":["
        case .table, .ndjson: break
        }
    }

    mutating func add(_ row: LedgerRow) {
        guard !isTotalsOnly else {
            return
        }
        switch format {
        case .table: chunk += row.csv
        case .ndjson: chunk += row.json + "\n"
        case .json: chunk += (isFirst ? "" : ",") + row.json
        }
        isFirst = false
        if chunk.utf8.count >= Self.chunkByteCount {
            Console.stream(chunk)
            chunk = ""
        }
    }

    mutating func end(_ totals: LedgerTotals) {
        switch format {
        case .table where isTotalsOnly: chunk += totals.csv
        case .table: break
        case .ndjson: chunk += totals.objects.map { $0 + "\n" }.joined()
        case .json:
            chunk += (isTotalsOnly ? "" : "],") + "\"totals\":["
            chunk += totals.objects.joined(separator: ",") + "]}\n"
        }
        Console.write(chunk)
        chunk = ""
    }
}
