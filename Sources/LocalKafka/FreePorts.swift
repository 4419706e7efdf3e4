internal import Glibc
internal import Synchronization

/// Ports on loopback that nobody listens on now.
package enum FreePorts {
    /// Below those that the system gives to connections going out: a process that is down for a
    /// moment must find its port free when it comes back, and clients that knock meanwhile are
    /// given ports all the time.
    private static let range: Range<UInt16> = 15_000..<32_000
    private static let attemptCountMax = 1_000
    /// What this process was given before: nobody may listen there yet, and somebody will.
    private static let taken = Mutex<Set<UInt16>>([])

    /// So many different ports, none of which this process was given before.
    ///
    /// - Throws: `failed` where a thousand attempts find too few.
    package static func take(count: Int) throws(LocalCluster.Fault) -> [Int] {
        var ports: [Int] = []
        for _ in 0..<attemptCountMax where ports.count < count {
            let port = UInt16.random(in: range)
            let isNew = taken.withLock { $0.insert(port).inserted }
            if isNew, isFree(port) {
                ports.append(Int(port))
            }
        }
        guard ports.count == count else {
            throw none
        }
        return ports
    }

    /// `count` ports in a row: from the wanted one on, or elsewhere where one of them is taken.
    ///
    /// - Throws: `failed` where a thousand attempts find too few.
    package static func near(_ wanted: Int, count: Int = 1) throws(LocalCluster.Fault) -> Int {
        if areFree(wanted, count: count) {
            return wanted
        }
        for _ in 0..<attemptCountMax {
            let port = Int(UInt16.random(in: range))
            if areFree(port, count: count) {
                return port
            }
        }
        throw none
    }

    private static func areFree(_ first: Int, count: Int) -> Bool {
        (first..<first + count).allSatisfy { isFree(UInt16($0)) }
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        // As a server would: connections that have ended do not count.
        var isReused: Int32 = 1
        unsafe setsockopt(
            descriptor,
            SOL_SOCKET,
            SO_REUSEADDR,
            &isReused,
            socklen_t(MemoryLayout<Int32>.size)
        )
        var address = loopback(port: port)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                unsafe bind(descriptor, generic, size) == 0
            }
        }
    }

    /// Whether somebody listens there.
    static func isListening(port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = loopback(port: port)
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                unsafe connect(descriptor, generic, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        return address
    }

    private static var none: LocalCluster.Fault {
        .failed(message: "no free port on loopback")
    }
}
