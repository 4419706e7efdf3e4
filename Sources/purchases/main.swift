internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.purchases) { services in
    try PurchasesStage(services)
}
