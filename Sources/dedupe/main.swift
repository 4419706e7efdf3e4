internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.dedupe) { _ in
    DedupeStage()
}
