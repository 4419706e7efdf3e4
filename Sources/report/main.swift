internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.report) { services in
    try ReportStage(services)
}
