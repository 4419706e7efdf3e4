import Crypto
import Foundation
import Glibc
import Kafka
import LocalKafka
import Testing

@testable import tollway

/// SIGHUP to the real program: keys are replaced without a restart, and a bad file changes nothing.
@Suite(.serialized)
struct `Keys read again on SIGHUP` {
    private static let isKafkaThere = LocalCluster.homeFromEnvironment != nil

    @Test(
        .enabled(
            if: isKafkaThere,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `take over when they are good, and not when they are bad`() throws {
        let rig = try ReportRig(reportsPerSecond: 50)
        defer { rig.stop() }
        try rig.start(1)
        try rig.awaitReady([1])
        try rig.deliver(5)
        try reported(5, rig)

        // Bad files: each is named in the log, and the old key goes on.
        let bad: [(sentence: String, change: () throws -> Void)] = [
            ("holds no P-256", { try rig.write("key-1.p8", Array("no key at all 123".utf8)) }),
            (
                "everybody can read",
                { try rig.write("key-1.p8", P256PrivateKey.generate().pem, mode: 0o644) }
            ),
            ("names", { try rig.writeApps(keyID: "X", keyFile: "gone.p8", reportsPerSecond: 50) }),
            ("apps.json", { try rig.write("apps.json", Array("{\"apps\":".utf8)) }),
        ]
        for (index, one) in bad.enumerated() {
            try one.change()
            let before = rig.log(1).count
            rig.signal(1, SIGHUP)
            try rig.wait(seconds: 10, for: "\(one.sentence) in the log") {
                let told = rig.log(1).dropFirst(before)
                return told.contains("what was read before stays in force")
                    && told.contains(one.sentence)
            }
            try rig.deliver(3)
            try reported(8 + 3 * index, rig)
        }

        // The key is withdrawn at Apple's: the lane stops, and nothing is lost.
        try rig.write("key-2.p8", P256PrivateKey.generate().pem)
        try rig.writeApps(keyID: "RIGKEY0002", keyFile: "key-2.p8", reportsPerSecond: 50)
        rig.signal(1, SIGHUP)
        try rig.deliver(3)
        let stopped = "tollway_report_lane_stopped{"
        try rig.wait(seconds: 15, for: "the lane is stopped") {
            try rig.metric(1, stopped) == 1
        }
        #expect(try rig.reportedCount() == 17)
        // Apple learns of the new key; the file is as it was. SIGHUP asks at once.
        try addKey("RIGKEY0002", file: "key-2.p8", rig)
        rig.signal(1, SIGHUP)
        try reported(20, rig, seconds: 4)
        try rig.wait(seconds: 5, for: "the lane is shown as open") {
            try rig.metric(1, stopped) == 0
        }
        #expect(!rig.log(1).contains("PRIVATE KEY"))
    }

    private func reported(_ count: Int, _ rig: ReportRig, seconds: Double = 15) throws {
        try rig.wait(seconds: seconds, for: "\(count) reports") {
            try rig.reportedCount() == count
        }
    }

    private func addKey(_ id: String, file: String, _ rig: ReportRig) throws {
        let pem = try Data(contentsOf: rig.folder.appendingPathComponent(file))
        let key = try P256PrivateKey(pem: Array(pem))
        let body: [String: Any] = [
            "keyId": id, "issuerId": "57246542-96fe-1a63-e053-0824d011072a",
            "publicKey": String(decoding: key.publicKeyPEM, as: UTF8.self),
            "bundleIds": [ReportRig.bundleID],
        ]
        let answer = try rig.http.call(
            "POST",
            rig.admin("/keys"),
            body: Array(JSONSerialization.data(withJSONObject: body))
        )
        #expect(answer?.status == 200)
    }
}
