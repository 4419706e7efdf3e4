import Foundation
import Kafka
import LocalKafka
import Testing

@testable import tollway

@Suite struct `A Kafka that asks who is there` {
    /// Goal: the rights of `Deploy/acls.sh` suffice for all workers and the operator, over TLS;
    /// whoever is not let in ends with 2 and a sentence; no password in a log.
    ///
    /// Method: Kafka with its own authorizer and without any other right, the demo's stream, its
    /// account.
    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `lets the workers do their work, and nobody else`() throws {
        let rig = try GuardedRig()
        defer {
            #expect(throws: Never.self) { try rig.end() }
        }
        // Before anybody has a right, and before there is a group.
        try rig.startRefused("no-right", rig.environment(as: "decode"))
        try rig.startRefused(
            "wrong-password",
            rig.environment(as: "decode", password: "report")
        )
        try rig.startRefused(
            "wrong-scram",
            rig.environment(as: "decode", password: "report", mechanism: "SCRAM-SHA-512")
        )
        try rig.startRefused("stranger", rig.environment(as: "decode", authority: "stranger"))
        for (name, part) in [
            ("wrong-password", "the broker does not take these credentials: "),
            ("wrong-scram", "the broker does not take these credentials: "),
            ("stranger", "no TLS with the broker: "),
            ("no-right", "or give this worker the right to see it, with Deploy/acls.sh"),
        ] {
            let (code, said) = try rig.awaitEnd(name)
            #expect(code == 2, "\(name)")
            #expect(said.contains(part), "\(name): \(said)")
        }
        try rig.giveRights()
        _ = try rig.tollway(["topics", "apply", "--yes"])
        #expect(
            try rig.tollway(["topics", "plan"]).contains("0 to create, 0 to change, 0 refused")
        )
        try rig.startWorkers()
        let run = rig.makeRun(tokenCount: 400)
        try run.register()
        try run.deliver()
        try run.sell()
        try run.awaitEnd()
        let account = try run.account()
        #expect(account.differences == [])
        #expect(account.sales?.differences == [] && account.agrees)
        try rig.restartWorkers()
        // The operator sees what the groups have committed.
        let lag = try rig.tollway(["lag", "--worker", "decode"])
        #expect(lag.split(separator: "\n").last?.hasSuffix("12         12    0") == true, "\(lag)")
        for (name, text) in try rig.logs() {
            for password in rig.passwords.values {
                #expect(!text.contains(password), "\(name) has a password")
            }
            #expect(!text.contains("no right to read"), "\(name) lacks a right")
        }
    }
}
