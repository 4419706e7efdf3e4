internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway-bench`: how fast this build is on the cluster it is given, beside the least that the same
/// libraries could do.
enum BenchCommand {
    /// - Returns: the exit status.
    static func main(_ arguments: [String]) -> Int32 {
        if arguments.contains("--help") || arguments.contains("-h") {
            Console.write(arguments.first == BenchFill.word ? BenchFill.help : BenchOptions.help)
            return 0
        }
        do {
            if let part = arguments.first.flatMap({ BenchPart(rawValue: $0) }) {
                try part.run(Array(arguments.dropFirst()))
            } else if arguments.first == BenchFill.word {
                try BenchFill(Array(arguments.dropFirst())).run()
            } else {
                try run(try BenchOptions(arguments))
            }
            return 0
        } catch let failure as BenchFailure {
            return end(failure, arguments)
        } catch let fault as LogFault {
            return end(BenchFailure(.noKafka, code: "bench.kafka", "\(fault)"), arguments)
        } catch {
            return end(BenchFailure(code: "bench.failed", "\(error)"), arguments)
        }
    }

    /// Tells a failure as all commands do: with `-o json` as an object on standard output.
    private static func end(_ failure: BenchFailure, _ arguments: [String]) -> Int32 {
        if zip(arguments, arguments.dropFirst()).contains(where: { $0 == ("-o", "json") }) {
            let members = [
                "\"code\":" + JSONText.quoted(failure.code),
                "\"message\":" + JSONText.quoted(failure.message),
            ]
            Console.write("{\"error\":{\(members.joined(separator: ","))}}\n")
        } else {
            Console.say("tollway-bench: \(failure.message) (\(failure.code))")
        }
        return failure.exit.rawValue
    }

    private static func run(_ options: BenchOptions) throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-bench-\(UUID().uuidString.prefix(8).lowercased())")
        let cluster: BenchKafka
        // Asked before anything is made: what is wrong on the command line leaves nothing behind.
        var settings = try configuration().kafka
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        defer { end(folder, isKept: options.keepsFolder) }
        let programs = BenchPrograms(folder: folder)
        defer { programs.stopAll() }
        cluster = try BenchKafka.start(folder: folder)
        defer { cluster.end() }
        settings.bootstrapServers = cluster.bootstrapServers
        settings.clientID = "tollway-bench"
        let http = try BenchHTTP()
        // Each measure has topics and state of its own, so that none is slowed by what another left.
        func inWorld<Result>(_ measure: (BenchWorld) throws -> Result) throws -> Result {
            let world = try BenchWorld(
                cluster: cluster,
                settings: settings,
                options: options,
                folder: folder,
                programs: programs,
                http: http
            )
            defer { world.end() }
            try cluster.createTopics(prefix: world.prefix, settings: settings)
            return try measure(world)
        }
        guard !options.isScale else {
            let points = try inWorld { world in
                try BenchScale(
                    world: world,
                    recordCount: options.recordCount,
                    storedCountMax: options.keyCount,
                    kafkaFolder: cluster.dataFolder
                )
                .run()
            }
            return Console.write(
                BenchScaleReport.text(points, cluster: cluster.sentence, format: options.format)
            )
        }
        let rows = try options.measures.flatMap { measure in
            try inWorld { try self.rows(measure, options, $0) }
        }
        Console.write(
            BenchReport.text(rows, cluster: cluster.sentence, format: options.format)
        )
    }

    private static func configuration() throws -> Configuration {
        do throws(ConfigurationFault) {
            return try Configuration(
                environment: ProcessInfo.processInfo.environment,
                program: .tollway
            )
        } catch {
            throw BenchFailure(.usage, code: error.code, error.sentence)
        }
    }

    private static func end(_ folder: URL, isKept: Bool) {
        guard !isKept else {
            Console.say("kept: \(folder.path)")
            return
        }
        do {
            try FileManager.default.removeItem(at: folder)
        } catch {
            Console.say("\(folder.path) could not be removed: \(error.localizedDescription)")
        }
    }

    private static func ingest(_ door: BenchDoor, _ world: BenchWorld) throws -> [BenchRow] {
        let batch = BenchDoor.batchTokenCount
        var tokenCount = 0
        var saleCount = 0
        let sales = BenchDoor.Item.sale(world.sales(customerCount: BenchTokens.customerCount))
        let rows = [
            try door.measure(perRequest: 1, firstNumber: &tokenCount),
            try door.measure(
                perRequest: 1,
                idleCount: BenchDoor.idleCount,
                firstNumber: &tokenCount
            ),
            try door.measure(perRequest: batch, firstNumber: &tokenCount),
            try door.measure(sales, perRequest: batch, firstNumber: &saleCount),
        ]
        let check = BenchCheck(world: world)
        try check.expectEachOnce(0..<tokenCount, in: world.topic(.tokensReceived))
        try check.expectEachOnce(
            0..<saleCount,
            in: world.topic(.purchasesReceived),
            byMember: BenchTally.saleMember
        )
        return rows
    }

    private static func rows(
        _ measure: BenchOptions.Measure,
        _ options: BenchOptions,
        _ world: BenchWorld
    ) throws -> [BenchRow] {
        let stages = BenchStages(
            world: world,
            recordCount: options.recordCount,
            runCount: options.runCount,
            otherPrograms: options.otherPrograms.map { URL(fileURLWithPath: $0) }
        )
        let door = BenchDoor(
            world: world,
            recordCount: options.recordCount,
            runCount: options.runCount,
            connectionCount: options.connectionCount,
            otherPrograms: options.otherPrograms.map { URL(fileURLWithPath: $0) }
        )
        switch measure {
        case .ingest:
            return try ingest(door, world)
        case .decode: return [try stages.decode()]
        case .dedupe: return [try stages.dedupe(keyCount: options.keyCount)]
        case .notifications: return [try stages.notifications()]
        case .report: return [try stages.reports()]
        case .reportWaiting: return [try stages.waitingReports(keyCount: options.keyCount)]
        case .purchases:
            return [
                try stages.purchases(
                    saleCount: options.keyCount,
                    salesPerCustomer: options.salesPerCustomer
                )
            ]
        case .largeCustomers:
            return [try stages.purchases(saleCount: options.keyCount, salesPerCustomer: 10_000)]
        case .chain: return [try door.chain()]
        }
    }
}
