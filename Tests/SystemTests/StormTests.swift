import Foundation
import Kafka
import LocalKafka
import Testing

@testable import tollway

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

    /// Any one of three may die without anything being held up for long, or for good.
    @Test(
        .enabled(
            if: isKafkaThere && !StormSettings.isAskedFor,
            "skipped: KAFKA_HOME names no Kafka, or a storm of another kind is asked for"
        ),
        arguments: [StormFaultKind.killBroker, .loseBroker]
    )
    func `loses nothing where one of three Kafka nodes dies`(death: StormFaultKind) throws {
        var settings = StormSettings()
        settings.nodeCount = 3
        settings.tokenCount = 2_000
        settings.faultCount = 10
        settings.killCountMin = 0
        settings.faults = [death, death, .kill, .killTwo, .stop]
        try blow(settings)
    }

    private func blow(_ settings: StormSettings) throws {
        let folder = try StormRun.makeFolder(settings)
        var found: [String] = []
        var isInterrupted = false
        do {
            found = try blow(settings, in: folder)
        } catch is DemoInterrupted {
            isInterrupted = true
            Issue.record("seed \(settings.seed): interrupted")
        } catch {
            found = ["\(error)"]
        }
        for sentence in found {
            Issue.record("seed \(settings.seed): \(sentence)")
        }
        // What failed is for the reader.
        if settings.keptFolder != nil || !found.isEmpty && !isInterrupted {
            print("kept: \(folder.path)")
        } else {
            try FileManager.default.removeItem(at: folder)
        }
    }

    /// - Returns: what is wrong, one sentence each.
    private func blow(_ settings: StormSettings, in folder: URL) throws -> [String] {
        let run = try StormRun(settings, folder: folder)
        var found: [String] = []
        do {
            try run.blow()
            found = try run.reckon()
            try run.stop()
            found += try run.audit()
        } catch let error as DemoInterrupted {
            try run.end()
            throw error
        } catch {
            found.append("\(error)")
        }
        try run.end()
        print("seed \(settings.seed): \(run.storm.sentence)")
        if settings.faults.contains(.loseBroker), run.storm.lostNode == nil {
            found.append("no node of Kafka was lost")
        }
        if run.storm.killCount < settings.killCountMin {
            found.append("\(run.storm.killCount) kills only, not \(settings.killCountMin)")
        }
        return found + run.storm.findings
    }
}
