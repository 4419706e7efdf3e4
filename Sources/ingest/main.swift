internal import FoundationEssentials

IngestRun.main(environment: ProcessInfo.processInfo.environment)
