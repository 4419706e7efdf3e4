internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.notifications) { services in
    try NotificationsStage(
        log: services.log,
        metrics: GapMetrics(services.metrics),
        before: LastNotice.ask(services.configuration),
        whole: { GapInLog.ask($0, services.configuration) }
    ) { () throws(ConfigurationFault) in
        try TrustFiles(services.configuration)
    }
}
