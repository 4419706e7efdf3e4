package import Kafka

/// Where a log of some kind lives: what a test needs around it.
package protocol RecordLogWorld {
    /// Whether a transaction is all or nothing here.
    var isTransactional: Bool { get }
    /// How long the slowest step of this world may take; nothing waits that long when all is well.
    var patienceMilliseconds: Int { get }

    /// Makes a topic of a new name.
    func makeTopic(partitionCount: Int) throws -> String

    /// Writes records from outside; they are readable when it returns.
    func write(_ records: [OutsideRecord], to topic: String) throws

    /// Every committed record of a topic, partition by partition in order.
    func contents(of topic: String) throws -> [OutsideRecord]

    /// Opens a log as a member of a group. The same instance again is the successor of the first.
    func openLog(
        group: String,
        instance: String,
        sources: [String],
        targets: [String],
        changelog: String?
    ) throws -> any RecordLog
}

/// A record as somebody outside of the log sees it.
package struct OutsideRecord: Equatable, Sendable {
    package var partition: Int32
    package var key: [UInt8]?
    package var value: [UInt8]?
    package var headers: [Header]

    package struct Header: Equatable, Sendable {
        package var name: String
        package var value: [UInt8]?

        package init(name: String, value: [UInt8]?) {
            self.name = name
            self.value = value
        }
    }

    package init(
        partition: Int32,
        key: [UInt8]?,
        value: [UInt8]?,
        headers: [Header] = []
    ) {
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
    }

    /// A record of a batch.
    package init(_ record: RecordBatch.Record, in arena: [UInt8]) {
        self.init(
            partition: record.partition,
            key: record.key.isAbsent ? nil : Array(arena[record.key.indices]),
            value: record.value.isAbsent ? nil : Array(arena[record.value.indices]),
            headers: HeaderList.entries(in: record.headers, of: arena).map { name, value in
                Header(name: name, value: value.isAbsent ? nil : Array(arena[value.indices]))
            }
        )
    }
}

extension OutputBatch {
    /// Appends a record given from outside.
    package mutating func append(
        _ record: OutsideRecord,
        topic: Int,
        chosenByKey: Bool = false
    ) {
        let key = record.key.map { place($0) } ?? .absent
        let value = record.value.map { place($0) } ?? .absent
        let headerStart = arena.count
        for header in record.headers {
            HeaderList.append(name: Array(header.name.utf8), value: header.value, to: &arena)
        }
        outputs.append(
            Output(
                topic: topic,
                partition: chosenByKey ? -1 : record.partition,
                key: key,
                value: value,
                headers: ByteRange(start: headerStart, count: arena.count - headerStart)
            )
        )
    }
}

/// A promise of ``RecordLog`` that was not kept.
package struct BrokenPromise: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}
