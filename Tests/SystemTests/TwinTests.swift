import Foundation
import Kafka
import LocalKafka
import Testing

@testable import tollway

@Suite struct `A worker whose name another has taken` {
    /// It waits a minute before it ends, and is no help meanwhile.
    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `is not ready while it waits`() throws {
        let rig = try ReportRig(reportsPerSecond: 50)
        defer { rig.stop() }
        try rig.start(1)
        try rig.awaitReady([1])
        try rig.start(2, instance: 1)
        try rig.awaitReady([2])
        try rig.wait(seconds: 40, for: "the older says that it is not ready, and the newer works") {
            // While it joins or restores it is not ready either, for another reason.  Its status
            // and metrics follow once it has given its partitions back, and the newer one is not
            // ready while it takes them.
            try rig.log(1).contains("a newer instance has this name")
                && rig.readiness(1) == 503
                && rig.isReadyInStatus(1) == false
                && rig.metric(1, "tollway_partitions_assigned{") == 0
                && rig.readiness(2) == 200
        }
        #expect(rig.processes.process("report-1")?.isRunning == true)
    }
}
