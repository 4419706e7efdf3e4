internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.notifications, environment: ProcessEnvironment.read()) { services in
    try NotificationsStage(log: services.log) { () throws(ConfigurationFault) in
        try TrustFiles(services.configuration)
    }
}
