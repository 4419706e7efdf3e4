import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite(.serialized, .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
struct `tollway ledger` {
    private func run(_ world: DeadLetterWorld, _ arguments: [String]) throws -> TollwayProcess {
        try TollwayProcess.run(arguments, environment: world.environment)
    }

    @Test func `is exported as CSV and as JSON, with its totals`() throws {
        let world = try DeadLetterWorld()
        #expect(try run(world, ["ledger", "export"]).exitCode == 3)
        let september = LedgerMaker.time + -.days(31)
        try LedgerMaker.write(
            [
                LedgerMaker.outcome(1, token: "a", late: 7_200),
                LedgerMaker.outcome(
                    2,
                    token: "b",
                    items: [
                        LedgerMaker.item("1"),
                        LedgerMaker.item("2", "REFUND", exclusive: 126, tax: 0),
                        LedgerMaker.item("3", at: september),
                    ]
                ),
                LedgerMaker.outcome(3, token: "c", app: 7, outcome: .rejected),
            ],
            to: world
        )
        let csv = try run(world, ["ledger", "export", "--month", "2026-10", "-o", "csv"])
        #expect(csv.exitCode == 0, "\(csv.talk)")
        let lines = csv.output.split(separator: "\r\n")
        #expect(lines.count == 5 && lines[0].hasPrefix("kind,app_apple_id,"))
        #expect(
            lines.allSatisfy {
                $0.split(separator: ",", omittingEmptySubsequences: false).count == 39
                    || $0.contains("\"")
            }
        )
        #expect(csv.talk.contains("1 report was late, by 2h at most: those for 2026-10 or"))
        #expect(
            csv.talk.contains("2 accepted reports with 2 line items, 1 that Apple refused\n"),
            "\(csv.talk)"
        )

        let all = try run(world, ["-o", "ndjson", "ledger", "export", "--app", "1"])
        let objects = try all.objects()
        #expect(objects.count == 5)
        let total = try #require(objects.last)
        #expect(total["kind"] as? String == "total" && total["netTaxExclusive"] as? Int == 8_126)
        let item = try #require(objects.first { $0["lineItemId"] as? String == "2" })
        #expect(item["amountTaxExclusive"] as? Int == 126 && item["lateBySeconds"] as? Int == 0)
        let totals = try run(world, ["ledger", "export", "--month", "2026-09", "--totals"])
        #expect(totals.output.contains("1,production,EUR,1,0,4126,864,4990,0,0,0,4126"))
        #expect(totals.talk.contains("sales of 2026-09 (UTC)") && totals.talk.contains(" 4.126\n"))
        #expect(csv.talk.contains("sales of 2026-10 (UTC), whenever they were reported:\n"))
        let everything = try run(world, ["ledger", "export", "-o", "json"])
        #expect(
            everything.talk.contains("2 accepted reports with 3 line items, 1 that Apple refused")
        )
        let whole = try everything.object()
        #expect((whole["rows"] as? [Any])?.count == 5 && (whole["totals"] as? [Any])?.count == 1)
        #expect(try run(world, ["lag", "-o", "csv"]).exitCode == 2)
        #expect(try run(world, ["ledger", "export", "--month", "october"]).exitCode == 2)
    }

    @Test func `is of one app by its number or its bundle id`() throws {
        let world = try DeadLetterWorld()
        let apple = try SimulatedApple()
        let (number, bundle) = SimulatedApple.apps[0]
        try LedgerMaker.write(
            [LedgerMaker.outcome(1, app: number), LedgerMaker.outcome(2, app: 7)],
            to: world
        )
        for (app, exitCode, code) in [
            ("\(number)", 0, ""), (bundle, 0, ""), ("7", 0, ""), ("8", 3, ""),
            ("com.example.z", 3, "apple.unknown_app"),
        ] as [(String, Int32, String)] {
            let run = try TollwayProcess.run(
                ["ledger", "export", "-o", "json", "--app", app],
                environment: world.environment.merging(apple.environment) { $1 }
            )
            #expect(run.exitCode == exitCode, "\(app): \(run.talk)")
            guard code.isEmpty else {
                #expect(try run.errorCode() == code)
                continue
            }
            #expect((try run.object()["rows"] as? [Any])?.count == (exitCode == 0 ? 1 : 0))
        }
        // Without the file nobody knows whose bundle it is.
        let without = try run(world, ["ledger", "export", "-o", "json", "--app", bundle])
        #expect(try without.errorCode() == "usage.missing_apps_file")
    }

    @Test func `that cannot be read is not called empty`() throws {
        let world = try DeadLetterWorld()
        let topic = Topic.reportsOutcomes.name(prefix: world.prefix)
        let producer = try KafkaProducer(settings: world.settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 5_000) }
        var outputs = OutputBatch()
        let output = OutputBatch.Output(
            topic: 0,
            key: outputs.place("t-1".utf8),
            value: outputs.place(#"{"x":1}"#.utf8)
        )
        outputs.outputs.append(output)
        try producer.produce(outputs, tags: [1])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        let export = try run(world, ["ledger", "export"])
        #expect(export.exitCode == 1, "\(export.talk)")
        #expect(export.talk.contains("1 record and the line items of 0 reports cannot be read"))
        #expect(!export.talk.contains("nothing in the ledger matches"))
    }

    @Test func `counts an accepted report once that a hand copied into it again`() throws {
        let world = try DeadLetterWorld()
        let told = LedgerMaker.outcome(1, items: [LedgerMaker.item("1")], late: 60)
        try LedgerMaker.write([told, LedgerMaker.outcome(2), told], to: world)
        let run = try run(world, ["ledger", "export", "-o", "ndjson"])
        #expect(run.exitCode == 0)
        let objects = try run.objects()
        let flags = objects.compactMap { $0["repeated"] as? Bool }
        #expect(flags.count == 3 && flags.filter { $0 }.count == 1, "\(run.output)")
        #expect(objects.last?["netTaxExclusive"] as? Int == 4_126)
        #expect(run.talk.contains("2 accepted reports with 1 line item\n"), "\(run.talk)")
        #expect(run.talk.contains("1 report was late"))
        let repeated = try #require(objects.first { $0["repeated"] as? Bool == true })
        let position = try #require(repeated["position"] as? String)
        #expect(run.talk.contains("1 record repeats") && run.talk.contains(position))
        #expect(!run.talk.contains("other content"))
    }

    @Test func `names an accepted report that a hand copied into it with other amounts`() throws {
        let world = try DeadLetterWorld()
        let told = LedgerMaker.outcome(1, items: [LedgerMaker.item("1")])
        let altered = LedgerMaker.outcome(1, items: [LedgerMaker.item("1", exclusive: 1)])
        try LedgerMaker.write([told, LedgerMaker.outcome(2), altered], to: world)
        let run = try run(world, ["ledger", "export", "-o", "ndjson"])
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(try run.objects().last?["netTaxExclusive"] as? Int == 4_126)
        #expect(
            run.talk.contains(
                "1 record repeats an accepted report with other content (column repeated, first"
                    + " request identifier \(LedgerMaker.identifier(1)))"
            ),
            "\(run.talk)"
        )
        #expect(run.talk.contains("tollway ledger verify --all"))
        #expect(!run.talk.contains("that the ledger has already"))
    }

    @Test func `is held against what Apple has, and each difference is named`() throws {
        let world = try DeadLetterWorld()
        let apple = try SimulatedApple()
        let environment = world.environment.merging(apple.environment) { $1 }
        let app = SimulatedApple.apps[0].0
        try apple.register(["a", "b", "c"])
        func told(_ number: Int, _ token: String, _ outcome: ReportOutcome.Outcome = .accepted)
            -> ReportOutcome
        {
            LedgerMaker.outcome(number, token: token, app: app, outcome: outcome)
        }
        // Apple has the first two; the second with another status than the ledger says.
        try apple.report(LedgerMaker.identifier(1), token: "a", status: "NO_LINE_ITEM")
        try apple.report(LedgerMaker.identifier(2), token: "b", status: "UNRECOGNIZED_TOKEN")
        try LedgerMaker.write(
            [told(1, "a"), told(2, "b"), told(3, "c"), told(4, "c", .rejected)],
            to: world
        )
        for arguments in [["--all"], ["--sample", "10", "--seed", "5"]] {
            let run = try TollwayProcess.run(
                ["ledger", "verify", "-o", "ndjson"] + arguments,
                environment: environment
            )
            #expect(run.exitCode == 1, "\(run.talk)")
            let objects = try run.objects()
            let found = objects.dropLast().sorted {
                "\($0["requestIdentifier"] ?? "")" < "\($1["requestIdentifier"] ?? "")"
            }
            #expect(found.map { $0["kind"] as? String } == ["differs", "not_held"])
            #expect(found[0]["field"] as? String == "status")
            #expect(found[0]["apples"] as? String == "UNRECOGNIZED_TOKEN")
            let total = try #require(objects.last)
            #expect(total["askedCount"] as? Int == 3 && total["equalCount"] as? Int == 1)
        }
        // All were settled in that month, and none has a sale.
        for (by, month, exit) in [("sale", "2026-10", 1), ("told", "2026-09", 3)]
            as [(String, String, Int32)]
        {
            let run = try TollwayProcess.run(
                ["ledger", "verify", "--all", "--month", month, "--by", by],
                environment: environment
            )
            #expect(run.exitCode == exit, "\(by) \(month): \(run.talk)")
        }

        func show(_ number: Int, _ more: String...) throws -> TollwayProcess {
            try TollwayProcess.run(
                ["report", "show", LedgerMaker.identifier(number)] + more,
                environment: environment
            )
        }
        let equal = try show(1, "--ask-apple")
        #expect(equal.exitCode == 0, "\(equal.talk)")
        #expect(equal.output.contains("holds this very report"))
        #expect(equal.output.contains("in time"))
        #expect(try show(2, "--ask-apple").exitCode == 1)
        let missing = try show(3, "--ask-apple", "-o", "json")
        #expect(missing.exitCode == 1)
        let holding = try #require(try missing.object()["apple"] as? [String: Any])
        #expect(holding["isHeld"] as? Bool == false && holding["isEqual"] as? Bool == false)
        // By the token, and by reading all of the ledger.
        #expect(try show(4, "--token", "c").output.contains("error 36"))
        #expect(try show(4).output.contains("error 36"))
        #expect(try show(9).exitCode == 3)
    }
}
