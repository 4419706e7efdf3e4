internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.purchases) { _ in
    PurchasesStage()
}
