internal import Crypto
internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.report) { services in
    ProcessMemory.refuseDumps()
    return try ReportStage(services)
}
