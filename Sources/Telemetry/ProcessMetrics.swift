internal import Glibc

/// What every process of ours says about itself.
package enum ProcessMetrics {
    /// Registers the build, the memory and the processor time of this process, whether its Kafka
    /// answers, and whether its loop turns.
    package static func register(in metrics: Metrics, worker: String, health: Health) {
        metrics.gauge(
            "build_info",
            help: "Always 1; the labels say what runs.",
            labels: ["version", "stage"]
        ).set(1, BuildInfo.version, worker)
        let resident = metrics.gauge(
            "process_resident_memory_bytes",
            help: "Memory of the process that is in RAM."
        ).series()
        let processor = metrics.measuredCounter(
            "process_cpu_seconds_total",
            help: "Processor time that the process has used, user and system."
        )
        let openFiles = metrics.gauge(
            "process_open_fds",
            help: "Files and connections that the process holds open."
        ).series()
        let openFilesMax = metrics.gauge(
            "process_max_fds",
            help: "How many files and connections the process may hold open."
        ).series()
        metrics.gauge(
            "process_start_time_seconds",
            help: "When the process began, UNIX seconds."
        ).set(Double(WallClock.nowMilliseconds()) / 1_000)
        let kafka = metrics.gauge(
            "kafka_up",
            help: "1 while Kafka answers this worker, 0 while it is away and the worker waits."
        ).series()
        let refused = metrics.gauge(
            "file_refused",
            help: "1 while a file of apps, keys, roots or rates cannot be read again: what was read"
                + " before is in force, and without it the next start may fail."
        ).series()
        let idle = metrics.gauge(
            "loop_idle_seconds",
            help: "How long ago the worker's loop began its last turn; beyond 60 s it hangs."
        ).series()
        metrics.beforeRendering {
            idle.set(Double(health.idleMilliseconds) / 1_000)
            kafka.set(health.hasCondition("kafka") ? 0 : 1)
            let isRefused = health.hasCondition("settings") || health.hasCondition("rates")
            refused.set(isRefused ? 1 : 0)
            // What cannot be read stays as it was.
            residentByteCount().map { resident.set(Double($0)) }
            processor.set(WallClock.processorSeconds())
            OpenFiles.count.map { openFiles.set(Double($0)) }
            openFilesMax.set(Double(OpenFiles.limit.rlim_cur))
        }
    }

    /// The second number of `/proc/self/statm`, in pages; nil where it cannot be read.
    private static func residentByteCount() -> Int? {
        let descriptor = unsafe open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            return nil
        }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 128)
        let count = unsafe read(descriptor, &bytes, bytes.count)
        guard count > 0 else {
            return nil
        }
        let fields = String(decoding: bytes[..<count], as: UTF8.self).split(separator: " ")
        guard fields.count > 1, let pageCount = Int(fields[1]) else {
            return nil
        }
        return pageCount * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
