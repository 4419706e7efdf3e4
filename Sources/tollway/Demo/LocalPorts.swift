internal import LocalKafka
internal import TokenDomain

/// Where a pipeline on this machine listens, on loopback.
struct LocalPorts: Equatable {
    /// Production; the sandbox and the admin port are the next two.
    static let simulatorDefault = 9_500
    static let ingestDefault = 8_080
    static let consoleDefault = 9_490
    /// A client; the quorum and one more are the next two.
    static let kafkaDefault = 9_092

    var ingest: Int
    var admin: [Worker: Int]
    /// 0: wherever the simulator finds room.
    var simulator = 0
    /// 0: none.
    var console = 0
    /// 0: wherever Kafka finds room.
    var kafka = 0

    /// Some that nobody listens on.
    static func free() throws -> LocalPorts {
        var ports = try FreePorts.take(count: Worker.allCases.count + 1)
        let ingest = ports.removeLast()
        return LocalPorts(
            ingest: ingest,
            admin: Dictionary(uniqueKeysWithValues: zip(Worker.allCases, ports))
        )
    }

    /// Those that everybody expects, and others where somebody has them.
    static func usual() throws -> LocalPorts {
        var ports = LocalPorts(
            ingest: try FreePorts.near(ingestDefault),
            admin: [:],
            simulator: try FreePorts.near(simulatorDefault, count: 3),
            console: try FreePorts.near(consoleDefault),
            kafka: try FreePorts.near(kafkaDefault, count: 3)
        )
        for worker in Worker.allCases {
            ports.admin[worker] = try FreePorts.near(Int(worker.adminPort))
        }
        return ports
    }

    /// One sentence for each that is not where one expects it.
    var unusualPorts: [String] {
        let usual =
            [
                ("the door", Self.ingestDefault, ingest),
                ("the console", Self.consoleDefault, console),
                ("Apple's side", Self.simulatorDefault, simulator),
            ]
            + Worker.allCases.map { ($0.rawValue, Int($0.adminPort), admin[$0] ?? 0) }
        return usual.filter { $0.1 != $0.2 }.map {
            "somebody listens on \($0.1): \($0.0) is on \($0.2)"
        }
    }
}
