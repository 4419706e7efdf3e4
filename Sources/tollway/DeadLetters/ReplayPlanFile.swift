internal import Foundation
internal import TokenDomain
internal import TokenWire

/// A plan on the disk: for people to read and agree upon, and for `replay` or `discard` to do exactly
/// that.
struct ReplayPlanFile {
    static let byteCountMax = 256 << 20
    /// The first one had no action: it is a replay's.
    static let version = 2

    var action: DeadLetterAction
    var prefix: String
    var clusterID: String
    /// UNIX milliseconds.
    var madeAt: Int64
    var filter: String
    var records: PositionSet
    var rate: Int?
    var patch: MergePatch?
    var replayCountMax: Int?

    /// - Throws: exit 2 where it is no plan of ours.
    init(path: String) throws(CommandFailure) {
        try self.init(
            reading: try InputFile.read(path, byteCountMax: Self.byteCountMax),
            path: path
        )
    }

    /// The same of a file's bytes; `path` is for the sentences alone.
    init(reading bytes: [UInt8], path: String) throws(CommandFailure) {
        func bad(_ because: String) -> CommandFailure {
            .usage("bad_plan", "\"\(path)\" is no plan of tollway dlq plan: \(because)")
        }
        guard bytes.count <= Self.byteCountMax else {
            throw bad("more than \(Self.byteCountMax) bytes")
        }
        let parsed = Result { try JSONSerialization.jsonObject(with: Data(bytes)) }
        guard case .success(let value) = parsed, let object = value as? [String: Any] else {
            throw bad("not a JSON object")
        }
        guard let version = object["tollwayReplayPlan"] as? Int,
            (1...Self.version).contains(version)
        else {
            throw bad("tollwayReplayPlan must be 1 or \(Self.version)")
        }
        let named = (object["action"] as? String).flatMap(DeadLetterAction.init(rawValue:))
        guard let action = version == 1 ? .replay : named else {
            throw bad("action must be replay or discard")
        }
        let made = (object["made"] as? String).flatMap { InstantText.read(Array($0.utf8).span) }
        guard let madeAt = made else {
            throw bad("made must be a time such as 2026-03-01T12:00:00Z")
        }
        guard let prefix = object["prefix"] as? String,
            let clusterID = object["clusterId"] as? String,
            let filter = object["filter"] as? String,
            let texts = object["records"] as? [String: String]
        else {
            throw bad("prefix, clusterId, filter or records is missing")
        }
        var ranges: [DeadLetterPartition: [ClosedRange<Int64>]] = [:]
        for (name, text) in texts {
            guard let position = DeadLetterPosition("\(name)/0", prefix: prefix) else {
                throw bad("\"\(name)\" is no partition of dead letters")
            }
            let partition = DeadLetterPartition(
                stage: position.stage,
                partition: position.partition
            )
            ranges[partition] = try PositionSet.ranges("records", text)
        }
        guard let records = PositionSet(ranges) else {
            throw bad("records are not ascending")
        }
        guard !records.isEmpty else {
            throw bad("it names no dead letter")
        }
        func count(_ name: String, in range: ClosedRange<Int>) throws(CommandFailure) -> Int? {
            guard let value = object[name], !(value is NSNull) else {
                return nil
            }
            guard let count = value as? Int, range.contains(count) else {
                throw bad("\(name) must be from \(range.lowerBound) to \(range.upperBound)")
            }
            return count
        }
        self.action = action
        self.prefix = prefix
        self.clusterID = clusterID
        self.madeAt = madeAt
        self.filter = filter
        self.records = records
        rate = try count("rate", in: 1...DeadLetterAction.rateMax)
        replayCountMax = try count("replaysMax", in: 1...DeadLetterAction.replayCountMaxMax)
        if let text = object["patch"] as? String {
            guard action == .replay else {
                throw bad("a discard has no patch")
            }
            do {
                patch = try MergePatch(Array(text.utf8))
            } catch {
                throw bad("patch is no JSON object: \(error.message)")
            }
        }
    }
}
