import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `A line item of the ledger` {
    /// A report by hand is sent as it came, and what Apple took is to be read.
    @Test(
        arguments: [
            (#"{"lineItemId":"a","restatement":null,"erroneouslySubmitted":null}"#, nil),
            (#"{"lineItemId":"a","creationDate":1760000000000.0}"#, 1_760_000_000_000),
            (#"{"lineItemId":"a","creationDate":1760000000000}"#, 1_760_000_000_000),
            (#"{"lineItemId":"a","creationDate":"soon"}"#, nil),
        ] as [(String, Int64?)]
    )
    func `is read as Apple reads it`(json: String, date: Int64?) throws {
        let items = try LedgerLineItem.list("[\(json)]")
        let item = try #require(items.first)
        #expect(item.lineItemID == "a" && !item.isRestatement && !item.isErroneous)
        #expect(item.creationDate?.milliseconds == date)
    }
}

@Suite struct `A cell of the export` {
    @Test(arguments: [
        ("plain", "plain"), ("", ""), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""),
        ("a\r\nb", "\"a\r\nb\""), ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@a", "'@a"),
        ("\tx", "\"'\tx\""), ("=\"a\",b", "\"'=\"\"a\"\",b\""), ("a=b", "a=b"), ("é;x", "é;x"),
        // What could steer a terminal; é begins with the byte of the last of them.
        ("\u{1b}[31mx\u{7f}\0", "\u{fffd}[31mx\u{fffd}\u{fffd}"), ("\u{9b}2J", "\u{fffd}2J"),
        ("\u{1b}=1", "\u{fffd}=1"), ("©\t", "\"©\t\""),
        // A mark that combines makes one character of itself and the quote before it.
        ("a\"\u{301},=1", "\"a\"\"\u{301},=1\""),
        // The separator may be another one where it is opened.
        ("x;=1+1;y", "x;'=1+1;y"), ("a\n=1", "\"a\n'=1\""), ("a\r\n@x", "\"a\r\n'@x\""),
        ("a\t+1", "\"a\t'+1\""), ("a; -1", "a; '-1"), ("a;\"=1\"", "\"a;\"\"'=1\"\"\""),
        ("é;=1", "é;'=1"), ("a;b=1", "a;b=1"), ("=1;=2", "'=1;'=2"), ("a;;-", "a;;'-"),
    ])
    func `is quoted where it must be, and is no formula`(text: String, cell: String) {
        #expect(CSVText.cell(text) == cell)
    }

    @Test(
        arguments: [
            (0, "0.000"), (5, "0.005"), (4_990, "4.990"), (-4_990, "-4.990"),
            (Int128(Int64.max) * 10, "92233720368547758.070"),
        ] as [(Int128, String)]
    )
    func `shows money with its decimal point`(thousandths: Int128, text: String) {
        #expect(LedgerTotals.decimal(thousandths) == text)
    }

    @Test(
        arguments: [
            ("2026-10", "2026-10"), ("1970-01", "1970-01"), ("2026-13", nil), ("2026-00", nil),
            ("2026-1", nil), ("202610", nil), ("1969-12", nil), ("2026-10-01", nil),
            ("+026-10", nil),
        ] as [(String, String?)]
    )
    func `names a month`(text: String, shown: String?) {
        #expect(MonthText.read(text).map(MonthText.of) == shown)
    }
}

@Suite struct `A row of the ledger` {
    private func rows(_ outcome: ReportOutcome, _ selection: LedgerSelection = .init()) throws
        -> [LedgerRow]
    {
        let items = try outcome.details.lineItems.map { try LedgerLineItem.list($0) } ?? []
        return items.isEmpty
            ? [LedgerRow(outcome, nil, selection, "t/0/1")]
            : items.map { LedgerRow(outcome, $0, selection, "t/0/1") }
    }

    @Test func `has a value for each column`() throws {
        let row = try rows(LedgerMaker.outcome(1, items: [LedgerMaker.item("a")]))[0]
        #expect(row.values.count == LedgerRow.columns.count)
        #expect(Set(LedgerRow.columns.map(\.csv)).count == LedgerRow.columns.count)
        #expect(Set(LedgerRow.columns.map(\.json)).count == LedgerRow.columns.count)
    }

    /// What a double would change is not changed.
    @Test func `keeps every digit`() throws {
        let item = LedgerMaker.item(
            "a",
            exclusive: 9_007_199_254_740_993,
            tax: 0,
            more: #","exchangeRate":1.100000000000000001,"quantity":3"#
        )
        let row = try rows(LedgerMaker.outcome(1, items: [item]))[0]
        for digits in ["9007199254740993", "1.100000000000000001"] {
            #expect(row.csv.contains(",\(digits),"))
            #expect(row.json.contains(":\(digits)"))
        }
    }

    @Test func `is no formula where Apple's words begin like one`() throws {
        let row = try rows(LedgerMaker.outcome(1, token: "=cmd|x", outcome: .rejected))[0]
        #expect(row.csv.contains(",'=cmd|x,"))
        #expect(row.csv.contains("36 creationDate =a,\"\"b\"\""))
        #expect(row.csv.hasSuffix("\r\n"))
    }

    @Test func `belongs to the month of its sale, or to that in which it was told`() throws {
        let october = try #require(MonthText.read("2026-10"))
        let sold = october.start + Milliseconds(-1)
        let outcome = LedgerMaker.outcome(1, items: [LedgerMaker.item("a", at: sold)])
        var selection = LedgerSelection()
        #expect(try rows(outcome, selection)[0].month == october.adding(-1))
        selection.basis = .told
        #expect(try rows(outcome, selection)[0].month == october)
        selection.month = october
        #expect(selection.matches(try rows(outcome, selection)[0]))
        selection.apps = [2]
        #expect(!selection.matches(try rows(outcome, selection)[0]))
    }

    /// Settled on 20 November in a report that is late by its oldest sale, or that does not say.
    @Test(arguments: [3_000_000, nil] as [Int64?])
    func `has the deadline of its own sale, and that of the report where it restates one`(
        late: Int64?
    ) throws {
        let november = CalendarMonth(of: LedgerMaker.time).adding(1)
        let restated = #","restatement":true"#
        var outcome = LedgerMaker.outcome(
            1,
            items: [
                LedgerMaker.item("old"),
                LedgerMaker.item("new", "REFUND", at: november.start + .days(18)),
                LedgerMaker.item("again", at: LedgerMaker.time + .days(-31), more: restated),
                LedgerMaker.item(
                    "back",
                    at: LedgerMaker.time,
                    more: restated + #","erroneouslySubmitted":true"#
                ),
                #"{"lineItemId":"undated"}"#,
            ],
            settledAt: november.start + .days(19),
            late: late
        )
        let ofReport = november.start + .days(12)
        outcome.details.deadline = ofReport
        let rows = try rows(outcome)
        let ofOctober = november.start + .days(15)
        let ofNovember = november.adding(1).start + .days(15)
        #expect(rows.map(\.deadline) == [ofOctober, ofNovember, ofReport, ofReport, ofReport])
        #expect(rows.map(\.lateBySeconds) == [4 * 86_400, 0, late, late, late])
        #expect(rows[0].csv.contains(",2026-11-16T00:00:00.000Z,345600,old,"), "\(rows[0].csv)")
    }

    @Test(arguments: [(0, false), (1, true)] as [(Int64, Bool)])
    func `says that it was late`(late: Int64, isLate: Bool) throws {
        #expect(try rows(LedgerMaker.outcome(1, late: late))[0].isLate == isLate)
    }
}

@Suite struct `The totals of the ledger` {
    private func totals(_ outcomes: [ReportOutcome]) throws -> LedgerTotals {
        var restatements = Restatements()
        func place(_ number: Int) -> LedgerPlace {
            LedgerPlace(topic: "t", partition: 0, offset: Int64(number))
        }
        var seen: Set<String> = []
        let areRepeats = outcomes.map { !seen.insert($0.requestIdentifier).inserted }
        for (number, outcome) in outcomes.enumerated() {
            try restatements.take(outcome, at: place(number), isSuspect: areRepeats[number])
        }
        var totals = LedgerTotals()
        for (number, outcome) in outcomes.enumerated() {
            let items = try outcome.details.lineItems.map { try LedgerLineItem.list($0) } ?? []
            for item in items.isEmpty ? [nil] : items.map(Optional.some) {
                var row = LedgerRow(outcome, item, LedgerSelection(), "t/0/\(number)")
                row.isSuperseded =
                    item.map {
                        restatements.isSuperseded(outcome, $0, at: place(number))
                    } ?? false
                row.repetition = areRepeats[number] ? .copy : nil
                totals.add(row)
            }
        }
        return totals
    }

    @Test func `count the newest version of what Apple has, by currency`() throws {
        let restated = #","restatement":true"#
        let retracted = #","restatement":true,"erroneouslySubmitted":true"#
        func later(_ hours: Int64) -> Timestamp { LedgerMaker.time + .hours(hours) }
        let totals = try totals([
            LedgerMaker.outcome(
                1,
                items: [
                    LedgerMaker.item("a", exclusive: 1_000, tax: 200),
                    LedgerMaker.item("b", exclusive: 500, tax: 100),
                    LedgerMaker.item("c", exclusive: 70, tax: 7, currency: "USD"),
                ]
            ),
            // Refused: no money.
            LedgerMaker.outcome(2, items: [LedgerMaker.item("x")], outcome: .rejected),
            LedgerMaker.outcome(
                3,
                items: [
                    LedgerMaker.item("a", exclusive: 800, tax: 160, more: restated),
                    LedgerMaker.item("r", "REFUND", exclusive: 300, tax: 60),
                ],
                settledAt: later(1)
            ),
            LedgerMaker.outcome(
                4,
                items: [LedgerMaker.item("b", exclusive: 500, tax: 100, more: retracted)],
                settledAt: later(2)
            ),
            // Another app's line item of the same name, and one of the app's sandbox.
            LedgerMaker.outcome(5, token: "u", app: 2, items: [LedgerMaker.item("a")]),
            LedgerMaker.outcome(
                6,
                token: "SANDBOX_u",
                items: [LedgerMaker.item("a", more: retracted)],
                settledAt: later(3)
            ),
        ])
        let euro = LedgerTotals.Key(appAppleID: 1, environment: .production, currency: "EUR")
        let money = try #require(totals.money[euro])
        #expect(money.buyCount == 1 && money.refundCount == 1)
        #expect(money.buyTaxExclusive == 800 && money.buyTax == 160 && money.buyTaxInclusive == 960)
        #expect(money.netTaxExclusive == 500)
        #expect(totals.money.count == 3)
        #expect(totals.supersededCount == 2 && totals.retractedCount == 2)
        #expect(totals.reportCount == 6)
        #expect(totals.csv.contains("\r\n1,production,EUR,1,1,800,160,960,300,60,360,500,0\r\n"))
    }

    /// The replica that wrote the first two was 50 s ahead.
    @Test(arguments: [false, true])
    func `go by the order of the records, and not by clocks`(isCopied: Bool) throws {
        let restated = #","restatement":true"#
        func report(_ number: Int, _ exclusive: Int64, seconds: Int64) -> ReportOutcome {
            LedgerMaker.outcome(
                number,
                items: [
                    LedgerMaker.item(
                        "a",
                        exclusive: exclusive,
                        tax: 0,
                        more: number == 1 ? "" : restated
                    )
                ],
                settledAt: LedgerMaker.time + .seconds(seconds)
            )
        }
        var outcomes = [report(1, 100, seconds: 50), report(2, 200, seconds: 52)]
        outcomes.append(report(3, 300, seconds: 5))
        if isCopied {
            outcomes += [report(4, 400, seconds: 60), report(2, 200, seconds: 52)]
        }
        let euro = LedgerTotals.Key(appAppleID: 1, environment: .production, currency: "EUR")
        let totals = try totals(outcomes)
        #expect(totals.money[euro]?.buyTaxExclusive == (isCopied ? 400 : 300))
        #expect(totals.supersededCount == (isCopied ? 3 : 2))
    }

    @Test func `say what was late, and of what nobody can say it`() throws {
        let totals = try totals([
            LedgerMaker.outcome(1), LedgerMaker.outcome(2, late: 90_000),
            LedgerMaker.outcome(3, late: nil),
            // Apple has neither.
            LedgerMaker.outcome(4, outcome: .rejected, late: 500_000),
            LedgerMaker.outcome(5, outcome: .rejected, late: nil),
        ])
        #expect(totals.undatedCount == 1 && totals.rejectedCount == 2)
        #expect(totals.lateCount == 1 && totals.lateBySecondsMax == 90_000)
        #expect(totals.undatedCount == 1)
        #expect(totals.notes.contains { $0.contains("1 report was late, by 25h at most") })
    }

    /// Settled on 20 November 2026: sales of September and October are late then, and no other.
    @Test func `call late for a month what the account calls late`() throws {
        let october = CalendarMonth(of: LedgerMaker.time)
        let november = october.adding(1)
        let settled = november.start + .days(19)
        /// Late by its oldest sale, of October or September.
        func asked(
            _ number: Int,
            _ items: [String],
            oldest: CalendarMonth,
            token: String = "t"
        ) -> ReportOutcome {
            let deadline = ReportPolicy.deadline(ofSale: oldest.start)
            let late = (settled - deadline).count / 1_000
            var outcome = LedgerMaker.outcome(
                number,
                token: token,
                items: items,
                settledAt: settled,
                late: late
            )
            outcome.reason = ReportReason.request.rawValue
            outcome.details.deadline = deadline
            return outcome
        }
        let old = LedgerMaker.item("old")
        let new = LedgerMaker.item("new", at: november.start + .days(3))
        let oldest = LedgerMaker.item("oldest", at: october.start + .days(-3))
        let again = LedgerMaker.item("again", more: #","restatement":true"#)
        var monthly = LedgerMaker.outcome(3, settledAt: settled, late: 4 * 86_400)
        monthly.reason = ReportReason.month.rawValue
        monthly.details.deadline = november.start + ReportPolicy.deadlineAfterMonth
        let outcomes = [
            asked(1, [old, new], oldest: october),
            // Copied back by hand: late once.
            asked(1, [old, new], oldest: october),
            // The sale of October was reported before.
            asked(2, [oldest, again], oldest: october.adding(-1)),
            // October's own, whose row is one of November.
            monthly,
            // The sandbox has no deadline.
            asked(4, [old], oldest: october, token: "SANDBOX_t"),
        ]
        for (month, count) in [(october.adding(-1), 1), (october, 2), (november, 0)] {
            var selection = LedgerSelection()
            selection.month = month
            var totals = LedgerTotals(selection)
            var account = LateReports()
            for outcome in outcomes {
                let items = try outcome.details.lineItems.map { try LedgerLineItem.list($0) } ?? []
                totals.take(outcome, items)
                account.take(outcome, MonthCount.belongs(outcome, to: month))
                for item in items.isEmpty ? [nil] : items.map(Optional.some) {
                    let row = LedgerRow(outcome, item, selection, "t/0/1")
                    if selection.matches(row) {
                        totals.add(row)
                    }
                }
            }
            let name = MonthText.of(month)
            #expect(totals.lateCount == count, "\(name)")
            #expect(account.countByApp[1] ?? 0 == count, "\(name)")
            #expect(totals.notes.contains { $0.contains(" late, by ") } == (count > 0), "\(name)")
            let note =
                "2 reports were late, by 4d at most: those for 2026-10 or with sales of it, as"
                + " tollway account --month counts them"
            #expect(totals.notes.contains(note) == (month == october), "\(totals.notes)")
        }
    }

    @Test func `count records apart that repeat a report and say something else`() throws {
        let told = LedgerMaker.outcome(1, items: [LedgerMaker.item("a", exclusive: 1_000, tax: 0)])
        let altered = LedgerMaker.outcome(
            1,
            items: [LedgerMaker.item("a", exclusive: 9_000, tax: 0)]
        )
        var repeats = RepeatedReports()
        let outcomes = [told, told, altered, told]
        for outcome in outcomes {
            var bytes: [UInt8] = []
            outcome.write(to: &bytes)
            repeats.take(bytes.span)
        }
        var totals = LedgerTotals()
        for (number, outcome) in outcomes.enumerated() {
            for item in try LedgerLineItem.list(outcome.details.lineItems ?? "[]") {
                var row = LedgerRow(outcome, item, LedgerSelection(), "t/0/\(number)")
                row.repetition = repeats.repetition(outcome)
                totals.add(row)
            }
        }
        #expect(totals.copyCount == 2 && totals.firstCopy == "t/0/1")
        #expect(totals.alteredCount == 1)
        let euro = LedgerTotals.Key(appAppleID: 1, environment: .production, currency: "EUR")
        #expect(totals.money[euro]?.buyTaxExclusive == 1_000)
        #expect(totals.notes.contains { $0.hasPrefix("2 records repeat an accepted report that") })
        let note = try #require(totals.notes.first { $0.contains("other content") })
        #expect(note.hasPrefix("1 record repeats an accepted report with other content"))
        #expect(note.contains("first request identifier \(LedgerMaker.identifier(1))"))
        #expect(note.contains("tollway ledger verify --all"))
    }

    @Test func `leave out amounts that are no whole numbers, and say so`() throws {
        let item = LedgerMaker.item("a").replacing("4126", with: "4126.5")
        let totals = try totals([LedgerMaker.outcome(1, items: [item])])
        #expect(totals.unsummedCount == 1)
        let euro = LedgerTotals.Key(appAppleID: 1, environment: .production, currency: "EUR")
        #expect(totals.money == [euro: LedgerTotals.Money(unsummedCount: 1)])
        #expect(totals.objects.count == 1 && totals.objects[0].contains(#""unsummedCount":1"#))
    }

    @Test func `count rows of sales that were not reported, and say that they are rows`() throws {
        var totals = LedgerTotals()
        for revision in 1...2 {
            let outcome = PurchaseOutcome(
                lineItemID: "a",
                revision: revision,
                type: .buy,
                outcome: .rejected,
                externalPurchaseID: nil,
                requestIdentifier: nil,
                reason: "purchases.no_rate",
                errors: [],
                item: nil,
                receivedAt: LedgerMaker.time,
                settledAt: LedgerMaker.time,
                lane: Lane(appAppleID: 1, environment: .production)
            )
            totals.add(try LedgerRow(outcome, LedgerSelection(), "s/0/\(revision)"))
        }
        #expect(totals.notes.contains { $0.hasPrefix("2 rows are of sales that were not") })
    }

    @Test func `miss what Kafka has lost of the ledger's beginning, and say so`() {
        #expect(LedgerReader.lostBeginning(of: "t", [0, 0]) == nil)
        #expect(
            LedgerReader.lostBeginning(of: "t", [0, 7, 9])
                == "t has lost its beginning in 2 partitions (1 begins at offset 7): what lay"
                + " there cannot be read any more"
        )
    }
}

@Suite struct `Accepted reports that the ledger has twice` {
    private func bytes(_ outcome: ReportOutcome) -> [UInt8] {
        var bytes: [UInt8] = []
        outcome.write(to: &bytes)
        return bytes
    }

    @Test func `count once, whichever record comes first`() {
        let outcomes = [
            LedgerMaker.outcome(1), LedgerMaker.outcome(2), LedgerMaker.outcome(1),
            LedgerMaker.outcome(1, outcome: .verified),
            // Refused twice, and accepted at last: three records of which one is accepted.
            LedgerMaker.outcome(3, outcome: .rejected), LedgerMaker.outcome(3, outcome: .rejected),
            LedgerMaker.outcome(3),
        ]
        for order in [outcomes, outcomes.reversed()] {
            var repeats = RepeatedReports()
            for outcome in order {
                repeats.take(bytes(outcome).span)
            }
            let counted = order.filter { outcome in
                outcome.outcome != .rejected && repeats.repetition(outcome) == nil
            }
            #expect(
                counted.map(\.requestIdentifier).sorted() == (1...3).map(LedgerMaker.identifier)
            )
            let refused = order.filter { $0.outcome == .rejected }
            let repeated = refused.filter { repeats.repetition($0) != nil }
            #expect(repeated.isEmpty)
            #expect(repeats.suspectCount == 1)
        }
    }

    @Test func `are told from those that only look so to the filter`() {
        var repeats = RepeatedReports(recordCount: 200_000)
        let outcomes = (1...200_000).map { LedgerMaker.outcome($0) }
        for outcome in outcomes {
            repeats.take(bytes(outcome).span)
        }
        #expect(repeats.suspectCount < 500)
        let again = outcomes.filter { repeats.repetition($0) != nil }
        #expect(again.isEmpty)
    }

    /// Of a copied record nothing but the amounts or the app was changed.
    ///
    /// A report that was confirmed once
    /// more, after a loss of state, says the same at another time.
    @Test func `are told from those that were changed`() {
        let told = LedgerMaker.outcome(1, items: [LedgerMaker.item("a")])
        let others = [
            LedgerMaker.outcome(1, items: [LedgerMaker.item("a", exclusive: 4_127)]),
            LedgerMaker.outcome(1, items: [LedgerMaker.item("a"), LedgerMaker.item("b")]),
            LedgerMaker.outcome(1, app: 2, items: [LedgerMaker.item("a")]),
            LedgerMaker.outcome(
                1,
                items: [LedgerMaker.item("a")],
                settledAt: LedgerMaker.time + .hours(1)
            ),
        ]
        var repeats = RepeatedReports()
        for outcome in [told, told] + others {
            repeats.take(bytes(outcome).span)
        }
        let found = ([told, told] + others + [told]).map { repeats.repetition($0) }
        #expect(found == [nil, .copy, .altered, .altered, .altered, .copy, .copy])
    }

    @Test func `are of the apps that were asked for, and what cannot be read is none`() {
        var repeats = RepeatedReports()
        var selection = LedgerSelection()
        selection.apps = [1]
        for _ in 0..<2 {
            repeats.take(Array("{".utf8).span)
            repeats.take(bytes(LedgerMaker.outcome(1, app: 7)).span, of: selection)
        }
        #expect(repeats.suspectCount == 0)
    }

    /// So that the export of one month needs no room for all that came after it.
    @Test(arguments: [(LedgerSelection.Basis.sale, [2, 3, 5]), (.told, [1, 2])])
    func `are of the month that was asked for`(basis: LedgerSelection.Basis, numbers: [Int]) {
        let next = LedgerMaker.time + .days(31)
        let earlier = LedgerMaker.item("e", at: LedgerMaker.time + .days(-31))
        let outcomes = [
            LedgerMaker.outcome(1, items: [earlier]), LedgerMaker.outcome(2),
            LedgerMaker.outcome(3, items: [earlier, LedgerMaker.item("3")], settledAt: next),
            LedgerMaker.outcome(4, settledAt: next),
            LedgerMaker.outcome(5, items: [LedgerMaker.item("5")], settledAt: next),
        ]
        var selection = LedgerSelection()
        selection.month = CalendarMonth(of: LedgerMaker.time)
        selection.basis = basis
        let taken = outcomes.filter { outcome in
            var repeats = RepeatedReports()
            repeats.take(bytes(outcome).span, of: selection)
            return repeats.take(bytes(outcome).span, of: selection)
        }
        #expect(taken.map(\.requestIdentifier) == numbers.map(LedgerMaker.identifier))
        // Whatever its month, where it may correct another record.
        var repeats = RepeatedReports()
        for _ in 0..<2 {
            repeats.take(bytes(outcomes[3]).span, of: selection, isAlwaysTaken: true)
        }
        #expect(repeats.suspectCount == 1)
    }

    @Test(
        arguments: [
            (0, RepeatedReports.filterByteCountMin), (60_000_000, 120_000_000),
            (600_000_000, RepeatedReports.filterByteCountMax),
        ] as [(Int64, Int64)]
    )
    func `have a filter of the ledger's size`(recordCount: Int64, byteCount: Int64) {
        #expect(RepeatedReports.byteCount(of: recordCount) == byteCount)
    }
}
