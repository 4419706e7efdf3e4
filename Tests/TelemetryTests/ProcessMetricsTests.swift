import Glibc
import Telemetry
import Testing

struct `Metrics that every process has` {
    private func value(of name: String, in metrics: Metrics) throws -> Double {
        let text = String(decoding: metrics.render(), as: UTF8.self)
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + " ") })
        return try #require(Double(line.dropFirst(name.count + 1)))
    }

    @Test func `count its open files, and what it may`() throws {
        let metrics = Metrics()
        ProcessMetrics.register(in: metrics, worker: "decode", health: Health())
        // More than all the tests beside this one open or close meanwhile.
        let descriptors = try (0..<500).map { _ in
            let descriptor = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
            try #require(descriptor >= 0)
            return descriptor
        }
        let openCount = try value(of: "tollway_process_open_fds", in: metrics)
        #expect(openCount >= 500)
        descriptors.forEach { close($0) }
        #expect(try value(of: "tollway_process_open_fds", in: metrics) < openCount - 250)

        var limit = rlimit()
        try #require(unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        #expect(try value(of: "tollway_process_max_fds", in: metrics) >= openCount)
    }

    /// The alert on open files would have ended just then.
    @Test func `count the limit where no file can be opened any more`() async {
        await #expect(processExitsWith: .exitCode(7)) {
            let metrics = Metrics()
            ProcessMetrics.register(in: metrics, worker: "decode", health: Health())
            func values() -> [String: Double] {
                let lines = String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
                let words = lines.map { $0.split(separator: " ") }.filter { $0.count == 2 }
                return words.reduce(into: [:]) { $0[String($1[0])] = Double($1[1]) }
            }
            let before = values()
            var limit = rlimit()
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
            _ = unsafe getrlimit(resource, &limit)
            limit.rlim_cur = 1
            _ = unsafe setrlimit(resource, &limit)
            let after = values()
            let memory = "tollway_process_resident_memory_bytes"
            let isRight =
                after["tollway_process_open_fds"] == 1 && before[memory] == after[memory]
                && before[memory] ?? 0 > 0
            _exit(isRight ? 7 : 1)
        }
    }
}
