internal import Crypto
internal import StageRuntime
internal import TokenDomain

// Its own rate is Apple's: it is never in a hurry to read.
WorkerRun.main(.report, fetchWaitMilliseconds: 250) { services in
    ProcessMemory.refuseDumps()
    return try ReportStage(services)
}
