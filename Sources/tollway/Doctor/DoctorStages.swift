internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Whether every stage that has something to read is run by somebody.
struct DoctorStages {
    let prefix: String
    let clusterID: String
    /// Full names of the topics that are there.
    let there: Set<String>

    func findings(_ admin: KafkaAdmin) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        var unasked: [String] = []
        var unanswered: [DoctorFinding] = []
        var runCount = 0
        for worker in Worker.allCases where !worker.sources.isEmpty {
            do throws(LogFault) {
                let row = try row(of: worker, admin)
                guard let readers = row.readers else {
                    continue
                }
                runCount += readers.memberCount > 0 ? 1 : 0
                let group = worker.group(prefix: prefix)
                if let unread = UnreadStage(worker, group: group, readers, row.sources) {
                    findings.append(
                        unread.isWaitedFor
                            ? .failed(.stages, unread.sentence, unread.repair)
                            : .warning(.stages, unread.sentence, unread.repair)
                    )
                }
            } catch .misconfigured {
                // The check of rights reports a missing right.
                unasked.append(worker.rawValue)
            } catch {
                unanswered.append(
                    .skipped(
                        .stages,
                        "\(worker.rawValue) was not looked at: \(error.sentence)"
                    )
                )
            }
        }
        findings += unanswered
        if !unasked.isEmpty {
            findings.append(
                .skipped(
                    .stages,
                    "these credentials may not ask who runs \(NameList.text(unasked))"
                )
            )
        }
        if findings.isEmpty {
            findings = [
                .ok(.stages, "\(runCount) of them are run, and no other has anything to read")
            ]
        }
        return findings
    }

    private func row(
        of worker: Worker,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> (readers: StageReaders?, sources: [UnreadStage.Source]) {
        let group = worker.group(prefix: prefix)
        var sources: [UnreadStage.Source] = []
        for topic in worker.sources.map({ $0.name(prefix: prefix) }) where there.contains(topic) {
            let partitions = try LagCommand.partitions(of: topic, group: group, admin)
            sources.append(LagCommand.source(topic, partitions))
        }
        let readers = try StageReaders.ask(worker, prefix: prefix, clusterID: clusterID, admin)
        return (readers, sources)
    }
}
