/// A real Apache Kafka on this machine, for tests, the demo and chaos runs: KRaft, every node
/// broker and controller, on loopback.
package final class LocalCluster {
    /// What went wrong with a process of ours.
    package enum Fault: Error, Equatable, Sendable {
        /// No `libs` folder in the home, or no Java.
        case notInstalled(message: String)
        case failed(message: String)
    }

    /// `KAFKA_HOME`, where it is set and holds a distribution.
    package static var homeFromEnvironment: String? { nil }

    package let nodeCount: Int

    /// - Parameters:
    ///   - home: a folder with `libs/`.
    ///   - folder: for data and logs; made where missing.
    ///   - firstPort: node n listens for clients on `firstPort + 2n` and for its quorum on the next
    ///     one; 0 takes free ports.
    ///   - properties: further lines of `server.properties`.
    package init(
        home: String,
        folder: String,
        nodeCount: Int = 1,
        firstPort: UInt16 = 0,
        properties: [String: String] = [:]
    ) throws(Fault) {
        self.nodeCount = nodeCount
        throw Fault.failed(message: "not built yet")
    }

    package var bootstrapServers: String { "" }
    /// Starts every node that does not run, and waits until all answer (about 3 s for one node).
    package func start() throws(Fault) {}
    /// SIGKILL.
    package func kill(node: Int) throws(Fault) {}
    /// Starts a killed node again and waits until it answers.
    package func restart(node: Int) throws(Fault) {}
    /// SIGSTOP and SIGCONT.
    package func pause(node: Int) throws(Fault) {}
    package func resume(node: Int) throws(Fault) {}
    /// SIGTERM to all, SIGKILL after 10 s; the data stays.
    package func stop() {}
    /// Stops, and removes the folder.
    package func wipe() {}
}
