internal import Glibc
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
    var surprises: [String] {
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

/// Ports on loopback that nobody listens on now.
enum FreePorts {
    /// Below those that the system gives to connections going out: a worker that is down for a
    /// moment must find its port free when it comes back.
    private static let range: Range<UInt16> = 15_000..<32_000
    private static let attemptCountMax = 1_000

    static func take(count: Int) throws -> [Int] {
        var sockets: [Int32] = []
        defer {
            for socket in sockets {
                close(socket)
            }
        }
        var ports: [Int] = []
        for _ in 0..<attemptCountMax where ports.count < count {
            let port = UInt16.random(in: range)
            // Held until all are found, so that they differ.
            if let socket = bound(port) {
                sockets.append(socket)
                ports.append(Int(port))
            }
        }
        guard ports.count == count else {
            throw none
        }
        return ports
    }

    /// `count` ports in a row: from the wanted one on, or elsewhere where one of them is taken.
    static func near(_ wanted: Int, count: Int = 1) throws -> Int {
        if isFree(wanted, count: count) {
            return wanted
        }
        for _ in 0..<attemptCountMax {
            let port = Int(UInt16.random(in: range))
            if isFree(port, count: count) {
                return port
            }
        }
        throw none
    }

    private static func isFree(_ first: Int, count: Int) -> Bool {
        (first..<first + count).allSatisfy { port in
            guard let socket = bound(UInt16(port)) else {
                return false
            }
            close(socket)
            return true
        }
    }

    /// A socket that holds the port; nil where somebody has it.
    private static func bound(_ port: UInt16) -> Int32? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        // As a server would: connections that have ended do not count.
        var isReused: Int32 = 1
        unsafe setsockopt(
            descriptor,
            SOL_SOCKET,
            SO_REUSEADDR,
            &isReused,
            socklen_t(MemoryLayout<Int32>.size)
        )
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                unsafe bind(descriptor, raw, length)
            }
        }
        guard status == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    private static var none: CommandFailure {
        CommandFailure(.failed, code: "demo.port", "the system gives no free port")
    }
}
