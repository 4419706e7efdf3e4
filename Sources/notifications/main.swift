internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.notifications) { services in
    try NotificationsStage(
        log: services.log,
        gapCounter: GapWatch.counter(in: services.metrics),
        before: { LastNotice.ask(services.configuration, isOurs: $0) },
        whole: { GapInLog.ask($0, services.configuration, isOurs: $1) }
    ) { () throws(ConfigurationFault) in
        try TrustFiles(services.configuration)
    }
}
