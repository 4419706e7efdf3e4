internal import StageRuntime
internal import TokenDomain

extension PurchasesStage: ReloadingStage {
    /// The stage in a real worker.
    ///
    /// - Throws: ``ConfigurationFault``.
    convenience init(_ services: WorkerServices) throws(ConfigurationFault) {
        let configuration = services.configuration
        let rates: any RateSource
        if let path = configuration.exchangeRatesFile {
            rates = RatesFile(path: path, log: services.log, health: services.health)
        } else {
            rates = NoRates()
        }
        self.init(
            policy: Policy(configuration),
            apps: try AppDirectory(
                path: try configuration.requiredFile(.appsFile),
                log: services.log
            ),
            rates: rates,
            topicPrefix: configuration.topicPrefix,
            partitionCount: services.partitionCounts[
                Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
            ],
            metrics: services.metrics,
            log: services.log
        )
    }

    /// Reads the apps again, and the rates at the next look.
    func reload() -> ConfigurationFault? {
        let fault = (apps as? AppDirectory)?.reload()
        metrics.expect(apps: apps.appAppleIDs)
        (rates as? RatesFile)?.reload()
        return fault
    }
}

extension PurchasesStage.Policy {
    init(_ configuration: Configuration) {
        self.init()
        tokenWindow = configuration.purchasesTokenWindow
        tokenWait = configuration.purchasesTokenWait
    }
}
