internal import FoundationEssentials
internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.dedupe, environment: ProcessInfo.processInfo.environment) { _ in
    DedupeStage()
}
