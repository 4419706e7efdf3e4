internal import AppStoreAPI
internal import Crypto
internal import HTTPClient
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

extension ReportStage {
    /// Room for all that the stage ever has under way: nothing waits behind another lane.
    ///
    /// The longest true answer is a report of ours, as Apple holds it. So 512 answers under way are
    /// 256 MiB at most, whoever gives them: half of the memory that the worker is given.
    static let httpLimits = HTTPClient.Limits(
        concurrency: AppleEnvironment.allCases.count * ReportLimits().hostFlightCountMax,
        responseByteCountMax: 2 * ReportRequestBody.byteCountMax
    )

    /// The stage in a real worker.
    ///
    /// - Throws: ``ConfigurationFault``, or ``WorkerEnd`` where the HTTP client cannot be made.
    convenience init(_ services: WorkerServices) throws {
        let configuration = services.configuration
        let apps = try AppBook(
            path: try configuration.requiredFile(.appsFile),
            rootsPath: configuration.appleRootsFile,
            log: services.log
        )
        let http: HTTPClient
        do throws(HTTPClientFault) {
            http = try HTTPClient(limits: Self.httpLimits, userAgent: "tollway/1.0")
        } catch {
            throw WorkerEnd(exitCode: 70, sentence: "the HTTP client cannot be made: \(error)")
        }
        let keys = KeyMetrics(services.metrics)
        keys.expect(apps: apps.appAppleIDs)
        let apple = AppStoreClient(
            http: http,
            hosts: AppStoreHosts(
                production: configuration.appleProductionURL,
                sandbox: configuration.appleSandboxURL
            ),
            keyChanged: { Self.tell($0, services.log, keys) },
            loadSigners: { apps.signers(of: $0) }
        )
        self.init(
            policy: ReportPolicy(configuration),
            apple: apple,
            recordLog: services.recordLog,
            topicPrefix: configuration.topicPrefix,
            partitionCount: services.partitionCounts[
                Topic.tokensDistinct.name(prefix: configuration.topicPrefix)
            ],
            rate: { apps.rate(of: $0) },
            transactions: AccountTokenIntake(
                verifier: { apps.verifier },
                appAppleID: { apps.appAppleID(ofBundle: $0) }
            ),
            orders: LaneOrderTopic(
                settings: configuration.kafka,
                topicPrefix: configuration.topicPrefix
            ),
            metrics: services.metrics,
            log: services.log,
            health: services.health,
            seed: RandomBytes.next(count: 8).reduce(0) { $0 << 8 | UInt64($1) }
        )
        self.apps = apps
        metrics.expect(apps: apps.appAppleIDs)
    }

    private static func tell(_ change: KeyRing.Change, _ log: Log, _ metrics: KeyMetrics) {
        metrics.inUse(change.number, of: change.lane)
        guard let keyID = change.keyID else {
            // No key signs: what its lane does without one is told there.
            return
        }
        let app = LogValue.integer(change.lane.appAppleID)
        let environment = LogValue.text(change.lane.environment.rawValue)
        guard let refused = change.refused else {
            log.info(
                "the keys of an app have changed; the first of them is tried first",
                ("appAppleId", app),
                ("environment", environment),
                ("keyId", .text(keyID))
            )
            return
        }
        log.limited(
            .error,
            "Apple refuses a key; the app's other key is tried",
            per: "\(change.lane.appAppleID) \(change.lane.environment.rawValue)",
            ("appAppleId", app),
            ("environment", environment),
            ("refusedKeyId", .text(refused)),
            ("keyId", .text(keyID))
        )
    }
}

extension ReportPolicy {
    init(_ configuration: Configuration) {
        self.init(
            hold: configuration.reportHold,
            unrecognizedGrace: configuration.reportUnrecognizedGrace,
            deadlineDays: Int64(configuration.reportDeadlineDays),
            repeatsMonthly: configuration.reportMonthlyRepeat,
            reportsUnknownReminders: configuration.reportUnknownReminders == .report,
            requestIdentifier: Self.identifier,
            contentHash: Self.lineItemsHash
        )
    }
}

extension ReportStage: ReloadingStage {
    /// Reads the apps and their keys again, and lets every lane try them with its next request.
    func reload() -> ConfigurationFault? {
        guard let apps else {
            return nil
        }
        let before = apps.appAppleIDs
        // Lanes that stopped try again in any case: the fault may be another app's.
        defer {
            sender.reload()
            wake()
        }
        if let fault = apps.reload() {
            return fault
        }
        metrics.expect(apps: apps.appAppleIDs)
        // One that was taken out has no key any more.
        for appAppleID in Set(before + apps.appAppleIDs).sorted() {
            sender.apple.reloadKey(appAppleID: appAppleID)
            sender.apple.startWithFirstKey(appAppleID: appAppleID)
        }
        return nil
    }
}
