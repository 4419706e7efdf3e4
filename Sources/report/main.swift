internal import FoundationEssentials
internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.report, environment: ProcessInfo.processInfo.environment) { services in
    try ReportStage(services)
}
