internal import FoundationEssentials
internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.notifications, environment: ProcessInfo.processInfo.environment) { services in
    try NotificationsStage(log: services.log) { () throws(ConfigurationFault) in
        try TrustFiles(services.configuration)
    }
}
