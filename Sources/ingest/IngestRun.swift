internal import Crypto
internal import Glibc
internal import HTTPServer
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `ingest` as a process: configuration, admin port, producer, loop, signals, exit.
struct IngestRun {
    private static let producerCloseMilliseconds = 1_000

    static let serverLimits = HTTPServer.Limits(
        bodyByteCountMax: IngestLimits.batchByteCountMax,
        laneByteCountsMax: Route.allCases.map(\.incompleteByteCountMax),
        laneConnectionCountsMax: Route.allCases.map(\.incompleteConnectionCountMax),
        judgesHeads: true,
        headerByteCountMax: 16 << 10,
        connectionCountMax: IngestLimits.connectionCountMax,
        requestTimeoutMilliseconds: 10_000,
        // More than the 60 s of many a proxy: one that sends on a connection just closed answers 502.
        idleTimeoutMilliseconds: 75_000
    )

    /// Runs until a signal to stop, and exits.
    static func main() -> Never {
        WorkerArguments.answer(for: .ingest)
        MallocTuning.apply()
        OpenFiles.keepStandardOnes()
        OpenFiles.raiseLimit()
        let signals = ProcessSignals(stopSeconds: ProcessSignals.workerStopSeconds)
        let end: WorkerEnd
        do {
            let configuration = try Configuration(
                environment: ProcessEnvironment.read(),
                program: .worker(.ingest)
            )
            end = try run(configuration, signals)
        } catch let HTTPServerFault.cannotListen(address, message) {
            end = WorkerEnd(
                exitCode: 2,
                sentence: "\(Setting.ingestListen.fullName) is \(address): \(message)"
            )
        } catch {
            end = WorkerRun.end(for: error)
        }
        if end.exitCode == 2 {
            Log.writeToStandardError("tollway-ingest: \(end.sentence)\n")
        } else if end.exitCode != 0 {
            Log(worker: Worker.ingest.rawValue)
                .error("the worker ends", ("because", .text(end.sentence)))
        }
        // Not `exit`: the C libraries' own threads may still run, and what was to be kept is kept.
        _exit(end.exitCode)
    }

    private static func run(
        _ configuration: Configuration,
        _ signals: ProcessSignals
    ) throws -> WorkerEnd {
        let log = Log(worker: Worker.ingest.rawValue)
        let metrics = Metrics()
        let health = Health()
        ProcessMetrics.register(in: metrics, worker: Worker.ingest.rawValue, health: health)
        let board = StatusBoard()
        // From here on it holds keys.
        ProcessMemory.refuseDumps()
        let door = try makeDoor(configuration)
        guard let address = ListenAddress(configuration.ingestListen) else {
            throw ConfigurationFault.invalid(
                setting: Setting.ingestListen.fullName,
                value: configuration.ingestListen,
                expected: "an address and a port"
            )
        }
        let topics = Worker.ingest.targets.map { $0.name(prefix: configuration.topicPrefix) }
        let producer = try KafkaProducer(
            settings: configuration.kafka,
            targets: topics,
            queueByteCountMax: IngestLimits.queueByteCountMax
        )
        let server = try HTTPServer(listen: address, limits: serverLimits)
        let admin = try AdminServer(
            listen: configuration.adminListen,
            hosts: configuration.adminHosts,
            metrics: metrics,
            health: health,
            status: { [instance = configuration.instance] in
                board.json ?? StatusBoard.beginning(.ingest, instance: instance, health: health)
            }
        )
        admin.start()
        defer { admin.stop() }
        let watch = TopicWatch()
        let loop = IngestLoop(
            server: server,
            sink: producer,
            door: door,
            clocks: IngestLoop.Clocks(
                now: { Timestamp(milliseconds: WallClock.nowMilliseconds()) },
                monotonic: { WallClock.monotonicMilliseconds() }
            ),
            measures: IngestMeasures(metrics, topics: topics),
            log: log,
            health: health,
            view: IngestView(
                instance: configuration.instance,
                listen: "\(address.host) \(server.port)",
                board: board,
                health: health,
                startedAt: Timestamp(milliseconds: WallClock.nowMilliseconds())
            ),
            isOpen: { producer.isNamed }
        )
        log.info(
            "the worker runs",
            ("version", .text(BuildInfo.version)),
            ("instance", .text(configuration.instance)),
            ("prefix", .text(configuration.topicPrefix)),
            ("listen", .text("\(address.host) \(server.port)")),
            ("keys", .flag(configuration.ingestKeysFile != nil)),
            ("customers", .flag(configuration.ingestCustomerKeyFile != nil)),
            ("notifications", .flag(configuration.appleRootsFile != nil))
        )
        health.setStarted()
        health.setNotReady(because: "waiting for Kafka")
        health.setCondition("kafka", "waiting for Kafka")
        watch.start(.ingest, configuration, log)
        defer {
            watch.stop()
            loop.end()
            producer.close(deadlineMilliseconds: producerCloseMilliseconds)
        }
        let loginFiles = LoginFiles(of: configuration.kafka)
        do {
            try turn(
                loop,
                producer,
                signals,
                log,
                watch,
                loginFiles,
                openProducer: {
                    if let least = topics.compactMap({ watch.recordByteCountMax[$0] }).min() {
                        try producer.limitBatches(
                            topicByteCountMax: least,
                            settings: configuration.kafka
                        )
                    }
                    producer.nameTargets()
                },
                reload: {
                    let fault = readRootsAgain(for: loop, configuration, log)
                    health.setCondition("settings", fault?.sentence)
                }
            )
        } catch  where loop.isStopping {
            let ended = WorkerRun.end(for: error)
            log.warning(
                "told to stop; what is held is answered with 503",
                ("because", .text(ended.sentence))
            )
            return ended.afterStopSignal
        }
        return .toldToStop
    }

    private static func makeDoor(_ configuration: Configuration) throws -> Door {
        let keys = try configuration.ingestKeysFile.map {
            BearerKeys(try SecretFile.readBearerKeys(path: $0))
        }
        let pseudonyms = try configuration.ingestCustomerKeyFile.map {
            CustomerPseudonyms(
                key: try SecretFile.read(
                    path: $0,
                    setting: Setting.ingestCustomerKeyFile.fullName
                )
            )
        }
        let notifications = try configuration.appleRoots().map { roots in
            NotificationGate(
                roots: roots,
                sources: configuration.ingestNotificationSources,
                now: WallClock.monotonicMilliseconds()
            )
        }
        // A key is a better lock than a name, and no page in a browser has one.
        let hosts =
            keys == nil || !configuration.ingestHosts.isEmpty
            ? HostRule(names: configuration.ingestHosts) : nil
        return Door(hosts: hosts, keys: keys, pseudonyms: pseudonyms, notifications: notifications)
    }

    /// - Returns: what is wrong with them; those read before are trusted then.
    private static func readRootsAgain(
        for loop: IngestLoop,
        _ configuration: Configuration,
        _ log: Log
    ) -> ConfigurationFault? {
        do throws(ConfigurationFault) {
            // Whoever took out a key must not believe that it is refused from now on.
            guard let roots = try configuration.appleRoots() else {
                log.info("nothing was read again: keys and all else are read at a start")
                return nil
            }
            loop.trust(roots)
            log.info(
                "only Apple's roots were read again: keys and all else are read at a start",
                ("roots", .integer(Int64(roots.count)))
            )
            return nil
        } catch {
            log.settingsCannotBeReadAgain(error)
            return error
        }
    }

    private static func turn(
        _ loop: IngestLoop,
        _ producer: KafkaProducer,
        _ signals: ProcessSignals,
        _ log: Log,
        _ watch: TopicWatch,
        _ loginFiles: LoginFiles,
        openProducer: () throws -> Void,
        reload: () -> Void
    ) throws {
        let signalWatch = loop.watch(signals.descriptor)
        while !loop.hasStopped {
            if let fault = watch.fault {
                throw fault
            }
            if !loop.isStopping, producer.isBrokerAway || loop.isStalled,
                let end = loginFiles.end(refusal: producer.loginRefusal)
            {
                throw end
            }
            if watch.isVerified, !producer.isNamed {
                try openProducer()
            }
            let readable = try loop.turn(waitingAtMost: loop.waitMilliseconds())
            switch readable.contains(signalWatch) ? signals.take() : nil {
            case .terminate, .interrupt:
                log.info("told to stop")
                try loop.stop()
            case .reload: reload()
            case nil: break
            }
        }
    }
}
