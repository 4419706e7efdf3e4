internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.notifications) { services in
    try NotificationsStage(log: services.log) { () throws(ConfigurationFault) in
        try TrustFiles(services.configuration)
    }
}
