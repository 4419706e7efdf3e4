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
}
