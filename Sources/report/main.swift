internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.report, environment: ProcessEnvironment.read()) { services in
    try ReportStage(services)
}
