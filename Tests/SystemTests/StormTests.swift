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
        try blow(StormSettings())
    }

    /// Any one of three may die without anything being held up for long.
    @Test(
        .enabled(
            if: isKafkaThere && !StormSettings.isAskedFor,
            "skipped: KAFKA_HOME names no Kafka, or a storm of another kind is asked for"
        )
    )
    func `loses nothing where one of three Kafka nodes dies`() throws {
        var settings = StormSettings()
        settings.nodeCount = 3
        settings.tokenCount = 2_000
        settings.faultCount = 10
        settings.faults = [.killBroker, .killBroker, .kill, .killTwo, .stop]
        try blow(settings)
    }

    private func blow(_ settings: StormSettings) throws {
        let run = try StormRun(settings)
        var found: [String] = []
        do {
            try run.blow()
            found = try run.reckon()
            try run.stop()
            found += try run.audit()
        } catch {
            found.append("\(error)")
        }
        found += run.storm.findings
        try run.cleanUp(isFailed: !found.isEmpty)
        print("seed \(settings.seed): \(run.storm.sentence)")
        for sentence in found {
            Issue.record("seed \(settings.seed): \(sentence)")
        }
    }
}
