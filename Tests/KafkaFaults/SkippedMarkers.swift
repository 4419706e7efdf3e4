import Foundation
package import Kafka

/// What a node leaves that was killed between a coordinator's decision and its markers, where the
/// coordinator then skips them (KAFKA-20734): complete transactions that lack their markers.
///
/// A node that is killed at the right instant does it by itself in some runs only.
package struct SkippedMarkers {
    private static let coordinatorTopic = "__transaction_state"
    /// After version (2 bytes), producer (8), epoch (2) and timeout (4).
    private static let stateOffset = 16
    /// Empty, CompleteCommit, CompleteAbort, Dead.
    private static let endStates: Set<UInt8> = [0, 4, 5, 6]
    /// Base offset (8), length of what follows (4).
    private static let batchHeadCount = 12
    /// After leader epoch (4), magic (1) and CRC (4): the attributes' lower byte.
    private static let attributesOffset = 22
    private static let controlBit: UInt8 = 0x20

    /// Of node 0.
    private let data: URL

    /// - Parameter folder: that of the ``LocalCluster``, of one node.
    package init(folder: String) {
        data = URL(fileURLWithPath: "\(folder)/0/data")
    }

    /// Whether coordinators have ended every transaction: all markers are written then, and none is
    /// written again after a restart.
    package static func isNothingUnderWay(_ settings: KafkaSettings) throws -> Bool {
        let browser = try LogBrowser(
            settings: settings,
            topics: [coordinatorTopic],
            isolation: .readUncommitted
        )
        defer { browser.close() }
        try browser.start()
        var last: [[UInt8]: UInt8] = [:]
        try browser.readToEnd { batch in
            for record in batch.records where record.value.count > stateOffset {
                let key = Array(batch.arena[record.key.indices])
                last[key] = batch.arena[record.value.start + stateOffset]
            }
        }
        return last.values.allSatisfy(endStates.contains)
    }

    /// Cuts the last marker of each partition of a topic that ends with one.
    ///
    /// The node must have been killed, so that it reads what it finds.
    ///
    /// - Returns: how many were cut.
    package func cut(topic: String) throws -> Int {
        let logs = try FileManager.default.contentsOfDirectory(atPath: data.path)
            .filter { $0.hasPrefix("\(topic)-") }
            .map { data.appendingPathComponent("\($0)/00000000000000000000.log") }
        return try logs.count { try Self.cutLastMarker(of: $0) }
    }

    private static func cutLastMarker(of log: URL) throws -> Bool {
        let bytes = try [UInt8](Data(contentsOf: log))
        var start = 0
        var next = 0
        while next < bytes.count {
            start = next
            let length = bytes[next + 8..<next + batchHeadCount].reduce(0) { $0 << 8 | Int($1) }
            next += batchHeadCount + length
        }
        guard !bytes.isEmpty, bytes[start + attributesOffset] & controlBit != 0 else {
            return false
        }
        let file = try FileHandle(forWritingTo: log)
        try file.truncate(atOffset: UInt64(start))
        try file.close()
        return true
    }
}
