import Kafka
import RecordLogContract
import Simulation
import Testing

/// The log in memory, for the simulations, keeps the promises of the one on Kafka.
@Suite struct `The log in memory` {
    @Test(arguments: RecordLogContract.allCases)
    func `keeps the promise that it`(promise: RecordLogContract) throws {
        try promise.check(in: MemoryWorld())
    }
}

private final class MemoryWorld: RecordLogWorld {
    let isTransactional = true
    /// Nothing here waits for anybody, so a second only passes when a promise is broken.
    let patienceMilliseconds = 1000

    private let cluster = MemoryCluster(seed: 1)
    private var topicCount = 0

    func makeTopic(partitionCount: Int) -> String {
        topicCount += 1
        let name = "contract.\(topicCount)"
        cluster.createTopic(name, partitionCount: partitionCount)
        return name
    }

    func write(_ records: [OutsideRecord], to topic: String) {
        for record in records {
            var headers: [UInt8] = []
            for header in record.headers {
                HeaderList.append(name: header.name.utf8, value: header.value, to: &headers)
            }
            cluster.append(
                topic: topic,
                partition: record.partition,
                key: record.key,
                value: record.value,
                headers: headers,
                timestampMilliseconds: 1
            )
        }
    }

    func contents(of topic: String) -> [OutsideRecord] {
        cluster.committedRecords(of: topic).map { record in
            let headers = HeaderList.entries(
                in: ByteRange(start: 0, count: record.headers.count),
                of: record.headers
            )
            return OutsideRecord(
                partition: record.partition,
                key: record.key,
                value: record.value,
                headers: headers.map { name, value in
                    OutsideRecord.Header(
                        name: name,
                        value: value.isAbsent ? nil : Array(record.headers[value.indices])
                    )
                }
            )
        }
    }

    func openLog(
        group: String,
        instance: String,
        sources: [String],
        targets: [String],
        changelog: String?
    ) -> any RecordLog {
        MemoryLog(
            cluster: cluster,
            group: group,
            transactionalID: "\(group)-\(instance)",
            sources: sources,
            targets: targets,
            clock: { 1 }
        )
    }
}
