import Foundation
import Kafka
import Testing

@Suite(.serialized)
struct `A storm of faults on a real Kafka` {
    private static let isKafkaThere = LocalCluster.homeFromEnvironment != nil

    @Test(
        .enabled(
            if: isKafkaThere,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `leaves every token told to Apple once`() throws {
        let settings = StormSettings()
        let run = try StormRun(settings)
        var found: [String] = []
        do {
            try run.blow()
            found = try run.reckon()
            try run.stop()
        } catch {
            found.append("\(error)")
        }
        found += run.storm.findings
        try run.cleanUp(isFailed: !found.isEmpty)
        let list = run.storm.struck.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "\($0.key.rawValue) \($0.value)" }
        print(
            "seed \(settings.seed): survived \(run.storm.faultCount) faults"
                + " (\(list.joined(separator: ", "))), \(run.storm.restartCount) exits with 75"
        )
        for sentence in found {
            Issue.record("seed \(settings.seed): \(sentence)")
        }
    }
}
