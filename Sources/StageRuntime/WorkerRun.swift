internal import Glibc
package import Kafka
internal import StateStore
package import Telemetry
package import TokenDomain

/// What a stage is handed when it is made: the world, as far as it may touch it.
package struct WorkerServices {
    package let configuration: Configuration
    package let log: Log
    package let metrics: Metrics
    package let health: Health
    /// For questions only (the guard); the loop alone reads, writes and commits.
    package let recordLog: any RecordLog
    /// How many partitions the worker's topics have, by full name.
    package let partitionCounts: [String: Int]
}

/// A whole worker but for its stage: configuration, log, admin port, Kafka, loop, signals, exit.
package final class WorkerRun {
    /// Of the 10 s that a worker has to stop, how long the last two transactions may take; a broker
    /// that is away takes longer, and what is not committed then will be read again.
    static let stopCommitWaitMilliseconds = 6_000
    /// The older of two instances with one name waits this long before it ends, so that a supervisor
    /// that restarts it does not make the two end each other in turn; and so does one whose disk failed,
    /// which is longer than a session: restarted at once it would have its partitions again, and others,
    /// which can work on them, would never get them.
    static let leftWaitMilliseconds = 60_000
    /// So long a transaction under way may take to end before the group is left; while it does, nobody else
    /// has the partitions.
    private static let leaveMilliseconds = 15_000
    /// How long an unreachable broker is left alone between two attempts.
    static let retryMilliseconds = 200
    static let idleWaitMilliseconds = 1_000

    private let worker: Worker
    private let configuration: Configuration
    private let loginFiles: LoginFiles
    let signals: ProcessSignals
    private let fetchWaitMilliseconds: Int?
    private let log: Log
    private let metrics = Metrics()
    let health = Health()
    private let board = StatusBoard()
    private var absence = BrokerAbsence()
    private let makeStage: (WorkerServices) throws -> any Stage

    /// Runs a worker until a signal to stop, and exits.
    ///
    /// `makeStage` throws ``ConfigurationFault`` or ``WorkerEnd``; `fetchWaitMilliseconds` is for a worker
    /// that is in no hurry to read, see ``KafkaSettings/fetchWaitMilliseconds``.
    package static func main(
        _ worker: Worker,
        fetchWaitMilliseconds: Int? = nil,
        makeStage: @escaping (WorkerServices) throws -> any Stage
    ) -> Never {
        WorkerArguments.answer(for: worker)
        MallocTuning.apply(spareByteCount: WorkerSizes(of: worker).spareByteCount)
        OpenFiles.keepStandardOnes()
        OpenFiles.raiseLimit()
        let signals = ProcessSignals(stopSeconds: ProcessSignals.workerStopSeconds)
        let configuration: Configuration
        do throws(ConfigurationFault) {
            configuration = try Configuration(
                environment: ProcessEnvironment.read(),
                program: .worker(worker)
            )
        } catch {
            complain(worker, error.sentence)
            exit(2)
        }
        let run = WorkerRun(
            worker,
            configuration,
            signals,
            fetchWaitMilliseconds: fetchWaitMilliseconds,
            makeStage
        )
        let ended = run.run()
        let end = signals.take()?.isStop == true ? ended.afterStopSignal : ended
        if end.exitCode != ended.exitCode {
            run.log.warning(
                "told to stop; what was not committed will be read again",
                ("because", .text(ended.sentence))
            )
        }
        if end.exitCode == 2 {
            complain(worker, end.sentence)
        } else if end.exitCode != 0 {
            run.log.error("the worker ends", ("because", .text(end.sentence)))
        }
        // Not `exit`: the C libraries' own threads may still run, and what was to be kept is kept.
        _exit(end.exitCode)
    }

    private static func complain(_ worker: Worker, _ sentence: String) {
        Log.writeToStandardError("tollway-\(worker.rawValue): \(sentence)\n")
    }

    private init(
        _ worker: Worker,
        _ configuration: Configuration,
        _ signals: ProcessSignals,
        fetchWaitMilliseconds: Int?,
        _ makeStage: @escaping (WorkerServices) throws -> any Stage
    ) {
        self.worker = worker
        self.configuration = configuration
        loginFiles = LoginFiles(of: configuration.kafka)
        self.signals = signals
        self.fetchWaitMilliseconds = fetchWaitMilliseconds
        self.makeStage = makeStage
        log = Log(worker: worker.rawValue)
        ProcessMetrics.register(in: metrics, worker: worker.rawValue, health: health)
    }

    private func run() -> WorkerEnd {
        do {
            let admin = try AdminServer(
                listen: configuration.adminListen,
                hosts: configuration.adminHosts,
                metrics: metrics,
                health: health,
                status: { [board, health, worker, configuration] in
                    board.json ?? Self.beginning(worker, configuration, health)
                }
            )
            admin.start()
            defer { admin.stop() }
            return try serve()
        } catch {
            return Self.end(for: error)
        }
    }

    // MARK: Serving

    private func serve() throws -> WorkerEnd {
        let prefix = configuration.topicPrefix
        if worker.changelog != nil {
            try Self.checkStateFolder(configuration.stateDirectory)
        }
        let topics = TopicCheck(worker: worker, configuration: configuration, log: log)
        let cluster = try topics.waitForTopics(health) {
            wait(milliseconds: $0)?.isStop == true
        }
        guard let cluster else {
            return .toldToStop
        }
        let targets = WorkerLoop.targets(of: worker).map { $0.name(prefix: prefix) }
        var kafka = configuration.kafka
        kafka.fetchWaitMilliseconds = fetchWaitMilliseconds ?? kafka.fetchWaitMilliseconds
        kafka.prefetch = WorkerSizes(of: worker).prefetch
        let recordLog = try KafkaLog(
            settings: kafka,
            delivery: configuration.delivery,
            member: KafkaLog.Member(
                group: worker.group(prefix: prefix),
                instance: "\(worker.rawValue)-\(configuration.instance)",
                transactionalID: "\(prefix)\(worker.rawValue)-\(configuration.instance)"
            ),
            sources: worker.sources.map { $0.name(prefix: prefix) },
            targets: targets,
            changelog: worker.changelog?.name(prefix: prefix),
            recordByteCountMax: (worker.deadLetters.map {
                [$0.name(prefix: prefix): DeadLetter.topicByteCountMax]
            } ?? [:]).merging(cluster.recordByteCountMax) { $1 }
        )
        let clock = { Timestamp(milliseconds: WallClock.nowMilliseconds()) }
        let stage = try makeStage(
            WorkerServices(
                configuration: configuration,
                log: log,
                metrics: metrics,
                health: health,
                recordLog: recordLog,
                partitionCounts: cluster.partitionCounts
            )
        )
        let view = WorkerView(
            WorkerView.Subject(
                worker: worker,
                instance: configuration.instance,
                group: worker.group(prefix: prefix),
                clusterID: cluster.id,
                delivery: configuration.delivery.rawValue
            ),
            board: board,
            metrics: metrics,
            health: health,
            now: clock()
        )
        let loop = WorkerLoop(
            worker: worker,
            group: worker.group(prefix: prefix),
            log: recordLog,
            stage: stage,
            provider: worker.changelog == nil
                ? nil : try stateDirectory(of: stage, cluster),
            limits: limits(of: cluster),
            telemetry: WorkerTelemetry(
                worker: worker,
                sources: worker.sources.map { $0.name(prefix: prefix) },
                log: log,
                metrics: metrics,
                health: health,
                view: view
            ),
            clock: clock
        )
        log.info(
            "the worker runs",
            ("version", .text(BuildInfo.version)),
            ("instance", .text(configuration.instance)),
            ("cluster", .text(cluster.id)),
            ("prefix", .text(prefix)),
            ("delivery", .text(configuration.delivery.rawValue)),
            ("apps", .count(try configuration.appCount()))
        )
        let end = turn(loop, recordLog, stage, view)
        recordLog.close(deadlineMilliseconds: 2_000)
        return end
    }

    /// A target may take less than Kafka's default: then that is what an output may have.
    private func limits(of cluster: TopicCheck.Cluster) -> WorkerLoop.Limits {
        var limits = WorkerLoop.Limits()
        let sizes = WorkerSizes(of: worker)
        limits.recordCountMax = sizes.recordCountMax
        limits.outputByteCountMax = sizes.outputByteCountMax
        func byteCountMax(_ topic: Topic) -> Int? {
            cluster.recordByteCountMax[topic.name(prefix: configuration.topicPrefix)]
        }
        let known = (worker.targets + [worker.changelog].compactMap { $0 })
            .compactMap(byteCountMax)
        limits.lower(toTopicsOf: known.min() ?? .max)
        if let deadLetters = worker.deadLetters.flatMap(byteCountMax) {
            limits.setDeadLetters(toTopicOf: deadLetters)
        }
        return limits
    }

    /// A folder that cannot be written is a wrong setting, and no restart repairs it.
    package static func checkStateFolder(_ path: String) throws {
        do throws(StoreFault) {
            try StateDirectory.makeWritable(path)
        } catch {
            guard case .failed(let message) = error else {
                throw error
            }
            throw WorkerEnd(
                exitCode: 2,
                sentence: "\(Setting.stateDirectory.fullName) cannot be written: \(message)"
            )
        }
    }

    private func stateDirectory(
        of stage: any Stage,
        _ cluster: TopicCheck.Cluster
    ) throws -> StateDirectory {
        let sizes = WorkerSizes(of: worker)
        let directory = StateDirectory(
            root: configuration.stateDirectory,
            clusterID: cluster.id,
            topicPrefix: configuration.topicPrefix,
            worker: worker.rawValue,
            shared: try StoreShared(
                writeBufferByteCount: sizes.writeBufferByteCount,
                fileFilterBits: sizes.fileFilterBits,
                groups: (stage as? any StatefulStage)?.storeGroups ?? StoreGroups()
            ),
            tombstoneMilliseconds: cluster.tombstoneMilliseconds,
            clockMilliseconds: { WallClock.nowMilliseconds() }
        )
        // Another user's, from an earlier start: it would join its group, and end.
        try Self.checkStateFolder(directory.path)
        let count = worker.changelog.flatMap {
            cluster.partitionCounts[$0.name(prefix: configuration.topicPrefix)]
        }
        for folder in directory.folders(below: count ?? 0) {
            try Self.checkStateFolder(folder)
        }
        return directory
    }

    /// The loop, until a signal or a fault ends it.
    private func turn(
        _ loop: WorkerLoop,
        _ recordLog: KafkaLog,
        _ stage: any Stage,
        _ view: WorkerView
    ) -> WorkerEnd {
        let ticking = stage as? any TickingStage
        while true {
            look(view, loop, recordLog, stage)
            if let end = Self.end(forHanging: view.hanging)
                ?? loginFiles.end(refusal: recordLog.isBrokerAway ? recordLog.loginRefusal : nil)
            {
                loop.abandon()
                return end
            }
            do {
                health.beat()
                let startedAt = WallClock.monotonicNanoseconds()
                let isBusy = try loop.step(waitMilliseconds: 0)
                if isBusy {
                    view.worked(nanoseconds: WallClock.monotonicNanoseconds() - startedAt)
                }
                tellHealth(loop, recordLog)
                let event =
                    isBusy
                    ? wait(milliseconds: 0)
                    : waitForWork(loop, recordLog, ticking)
                if heed(event, stage) {
                    return stop(loop)
                }
            } catch LogFault.unavailable(let code, let message) {
                health.setCondition("kafka", message)
                absence.found(code, log)
                if heed(wait(milliseconds: Self.retryMilliseconds), stage) {
                    return stop(loop)
                }
            } catch LogFault.fenced(let message) {
                log.error("a newer instance has this name", ("because", .text(message)))
                health.setNotReady(because: "a newer instance has this name; this one ends")
                return leave(loop, recordLog, WorkerEnd(exitCode: 75, sentence: message))
            } catch let fault as StoreFault where fault.isOfDisk {
                let end = Self.end(for: fault)
                log.error("partitions are left to others", ("because", .text(end.sentence)))
                health.setNotReady(because: end.sentence)
                return leave(loop, recordLog, end)
            } catch {
                return Self.end(for: error)
            }
            for note in recordLog.takeNotes() where note.level <= 4 {
                log.limited(
                    .warning,
                    "librdkafka",
                    per: note.facility,
                    ("facility", .text(note.facility)),
                    ("text", .text(note.text))
                )
            }
        }
    }

    private static func beginning(
        _ worker: Worker,
        _ configuration: Configuration,
        _ health: Health
    ) -> [UInt8] {
        StatusBoard.beginning(
            worker,
            instance: configuration.instance,
            group: worker.group(prefix: configuration.topicPrefix),
            health: health
        )
    }

    /// Others are to have the partitions: lets go of them, and ends once they have them.
    private func leave(_ loop: WorkerLoop, _ recordLog: KafkaLog, _ end: WorkerEnd) -> WorkerEnd {
        // A newer instance needs the stores, and with one STATE_DIR their locks.
        loop.abandon()
        board.publish(Self.beginning(worker, configuration, health))
        recordLog.close(deadlineMilliseconds: Self.leaveMilliseconds)
        return waitForStop(milliseconds: Self.leftWaitMilliseconds) ? .toldToStop : end
    }

    private func look(
        _ view: WorkerView,
        _ loop: WorkerLoop,
        _ recordLog: KafkaLog,
        _ stage: any Stage
    ) {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        guard view.isDue(now: now) else {
            return
        }
        log.writeWithheld()
        view.look(
            at: loop,
            stage: stage,
            statistics: recordLog.takeStatistics(),
            isAway: recordLog.isBrokerAway,
            producerCount: recordLog.producerCount,
            positionsSetElsewhere: recordLog.positionsSetElsewhere,
            now: now
        )
    }

    private func tellHealth(_ loop: WorkerLoop, _ recordLog: KafkaLog) {
        if recordLog.isAssigning {
            health.setNotReady(because: "asking what the group has committed")
        } else if let partition = loop.lockedPartition {
            health.setNotReady(because: "another process holds the state of partition \(partition)")
        } else if loop.isRestoring {
            health.setNotReady(because: "reading state from the changelog")
        } else {
            health.setReady()
        }
        let isAway = recordLog.isBrokerAway
        health.setCondition(
            "kafka",
            isAway ? recordLog.loginRefusal ?? "no broker answers" : recordLog.refusal
        )
        // The library says by what it was refused, once a minute.
        absence.found(isAway ? "_ALL_BROKERS_DOWN" : nil, log)
    }

    /// Finishes what was judged and commits it.
    ///
    /// ``ProcessSignals`` ends what hangs: for the group, a worker that ends in the middle is like
    /// one that was killed, and nothing is lost.
    private func stop(_ loop: WorkerLoop) -> WorkerEnd {
        log.info("told to stop")
        health.setNotReady(because: "stopping")
        do {
            try loop.finish(commitWaitMilliseconds: Self.stopCommitWaitMilliseconds)
        } catch let end as WorkerEnd {
            return end
        } catch {
            log.warning(
                "the last batch was not committed and will be read again",
                ("because", .text(Self.end(for: error).sentence))
            )
        }
        return .toldToStop
    }
}
