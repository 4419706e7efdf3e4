import Foundation
import Glibc
import LocalKafka
import TokenDomain

@testable import tollway

/// What happens to the nodes of Kafka.
extension Storm {
    /// What is to be done next about a node.
    enum NodeStep {
        case start(at: Date)
        /// It was started and does not answer yet.
        case awaitAnswer
        case resume(at: Date)
        /// SIGTERM was sent: it hands its partitions on, and ends.
        case awaitEnd(since: Date)
    }

    /// A node that got a signal to stop has ended by then.
    private static let nodeStopSecondsMax = 60.0
    /// So long a node that is back has to catch up before the next one is restarted.
    private static let rollRestSeconds = 5.0
    /// What was decided ten seconds ago or earlier is owed; the node was down for some of them.
    private static let repairSeconds = 10.0

    // MARK: Faults

    func killBroker(count: Int = 1, meanwhile: () -> Void = {}) throws -> Bool {
        guard let kafka = restedKafka, count == 1 || kafka.nodeCount == 3 else {
            return false
        }
        let nodes = (0..<kafka.nodeCount).shuffled(using: &generator).prefix(count)
        meanwhile()
        for node in nodes {
            note("node \(node) of Kafka: SIGKILL")
            try kafka.kill(node: node)
            killCount += 1
            let wait = Double.random(in: 0...(count == 1 ? 4 : 20), using: &generator)
            nodeSteps[node] = .start(at: Date().addingTimeInterval(wait))
        }
        return true
    }

    func pauseBroker() throws -> Bool {
        guard let kafka = restedKafka else {
            return false
        }
        let node = Int.random(in: 0..<kafka.nodeCount, using: &generator)
        let seconds = Double.random(
            in: kafka.nodeCount == 1 ? Self.onlyBrokerPauseSeconds : Self.brokerPauseSeconds,
            using: &generator
        )
        note("node \(node) of Kafka: SIGSTOP for \(Int(seconds)) s")
        try kafka.pause(node: node)
        nodeSteps[node] = .resume(at: Date().addingTimeInterval(seconds))
        return true
    }

    /// - Returns: false, for it strikes once every node was restarted.
    func beginBrokerRoll() -> Bool {
        if let kafka = restedKafka, kafka.nodeCount == 3 {
            nodesToRoll = Array(0..<kafka.nodeCount)
        }
        return false
    }

    func loseBroker() throws -> Bool {
        guard case .local(let kafka) = fleet.cluster, kafka.nodeCount == 3, lostNode == nil,
            nodeSteps.isEmpty, nodesToRoll.isEmpty
        else {
            return false
        }
        let node = Int.random(in: 0..<kafka.nodeCount, using: &generator)
        note("node \(node) of Kafka: SIGKILL, for good")
        try kafka.kill(node: node)
        killCount += 1
        lostNode = node
        return true
    }

    /// What the workers and Kafka have written is there when they come back, as after a process's end.
    func killMachine() throws -> Bool {
        guard case .local(let kafka) = fleet.cluster, kafka.nodeCount == 1, elders.isEmpty,
            !fleet.members.contains(where: isAwaitingExit),
            try killBroker(meanwhile: { [fleet] in
                for member in fleet.members { fleet.signal(member, SIGKILL) }
            })
        else {
            return false
        }
        for member in fleet.members where fleet.process(member) != nil {
            killAndRestart(member)
        }
        return true
    }

    /// The cluster, where nothing is done to it and it has had its rest.
    private var restedKafka: LocalCluster? {
        guard case .local(let kafka) = fleet.cluster, !isKafkaDisturbed, lostNode == nil,
            Date().timeIntervalSince(brokerRestartedAt) > Self.brokerRestSeconds
        else {
            return nil
        }
        return kafka
    }

    private func isAwaitingExit(_ member: Member) -> Bool {
        if case .awaitExit = due[member]?.step { true } else { false }
    }

    // MARK: The supervisor

    func superviseNodes() throws {
        if let until = repairsUntil {
            if try !repairHangingTransactions(), Date() >= until {
                repairsUntil = nil
                brokerRestartedAt = Date()
            }
        }
        guard case .local(let kafka) = fleet.cluster else {
            return
        }
        for (node, step) in nodeSteps.sorted(by: { $0.key < $1.key }) {
            try supervise(node, step, of: kafka)
        }
        try rollNextNode(of: kafka)
    }

    private func supervise(_ node: Int, _ step: NodeStep, of kafka: LocalCluster) throws {
        switch step {
        case .start(let at):
            if Date() >= at {
                try kafka.beginRestart(node: node)
                nodeSteps[node] = .awaitAnswer
                note("node \(node) starts")
            }
        case .awaitAnswer:
            if kafka.isAnswering(node: node) {
                note("node \(node) answers again")
                rest(node)
                if kafka.nodeCount == 1 {
                    repairsUntil = Date().addingTimeInterval(Self.repairSeconds)
                }
            } else if !kafka.isRunning(node: node) {
                throw StormFault(sentence: "node \(node) does not start again")
            }
        case .resume(let at):
            if Date() >= at {
                try kafka.resume(node: node)
                note("node \(node) goes on")
                rest(node)
            }
        case .awaitEnd(let since):
            if !kafka.isRunning(node: node) {
                nodeSteps[node] = .start(at: Date())
                note("node \(node) is gone")
            } else if Date().timeIntervalSince(since) > Self.nodeStopSecondsMax {
                throw StormFault(sentence: "node \(node) does not end after SIGTERM")
            }
        }
    }

    private func rest(_ node: Int) {
        nodeSteps[node] = nil
        brokerRestartedAt = Date()
    }

    private func rollNextNode(of kafka: LocalCluster) throws {
        guard let node = nodesToRoll.first, nodeSteps.isEmpty,
            Date().timeIntervalSince(brokerRestartedAt) > Self.rollRestSeconds
        else {
            return
        }
        nodesToRoll.removeFirst()
        note("node \(node) of Kafka: SIGTERM")
        try kafka.beginStop(node: node)
        nodeSteps[node] = .awaitEnd(since: Date())
        if nodesToRoll.isEmpty {
            struck[.rollBrokers, default: 0] += 1
        }
    }
}
