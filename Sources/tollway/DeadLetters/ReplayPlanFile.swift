internal import Foundation
internal import Glibc
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// A plan on the disk: for people to read and agree upon, and for `replay` to do exactly that.
struct ReplayPlanFile {
    static let byteCountMax = 256 << 20
    static let version = 1

    var prefix: String
    var clusterID: String
    var filter: String
    var records: PositionSet
    var rate: Int?
    var patch: MergePatch?
    var replayCountMax: Int?

    /// Writes a file that was not there before.
    ///
    /// - Throws: exit 2 where it is, or cannot be written.
    static func write(
        _ text: ReplayPlanText,
        clusterID: String,
        now: Timestamp,
        to path: String
    ) throws(CommandFailure) {
        let order = text.order
        let ranges = text.plan.records.ranges.sorted { $0.key < $1.key }.map { partition, ranges in
            let topic = Topic.deadLetters(partition.stage).name(prefix: order.prefix)
            return (
                name: "\(topic)/\(partition.partition)",
                json: JSONText.quoted(PositionSet.text(ranges))
            )
        }
        func lines(_ objects: [String]) -> String {
            objects.isEmpty ? "[]" : "[\n    " + objects.joined(separator: ",\n    ") + "\n  ]"
        }
        let members: [(String, String)] = [
            ("tollwayReplayPlan", "\(version)"),
            ("made", JSONText.quoted(WallClock.rfc3339(milliseconds: now.milliseconds))),
            ("by", JSONText.quoted(order.by)),
            ("clusterId", JSONText.quoted(clusterID)),
            ("prefix", JSONText.quoted(order.prefix)),
            ("filter", JSONText.quoted(order.filter.text)),
            ("matched", "\(text.plan.matchedCount)"),
            ("goBack", "\(text.plan.records.count)"),
            ("heldBack", "\(text.plan.heldCount)"),
            ("rate", order.rate.map { "\($0)" } ?? "null"),
            ("secondsAtRate", text.seconds.map { "\($0)" } ?? "null"),
            ("replaysMax", "\(order.replayCountMax)"),
            // As a text, for a JSON reader would write its numbers its own way.
            (
                "patch",
                order.patch.map { JSONText.quoted(String(decoding: $0.text, as: UTF8.self)) }
                    ?? "null"
            ),
            ("patchSamples", lines(text.samples)),
            ("groups", lines(text.groups)),
            ("targets", lines(text.targets)),
            ("held", lines(text.held)),
            ("headersDropped", JSONText.quoted(LetterShipment.droppedHeaders)),
            ("headersSet", lines(LetterShipment.setHeaders.map { JSONText.quoted($0) })),
            (
                "records",
                "{\n    "
                    + ranges.map { "\(JSONText.quoted($0.name)): \($0.json)" }
                    .joined(separator: ",\n    ") + "\n  }"
            ),
        ]
        let body = members.map { "  \(JSONText.quoted($0.0)): \($0.1)" }.joined(separator: ",\n")
        try write("{\n\(body)\n}\n", to: path)
    }

    private static func write(_ text: String, to path: String) throws(CommandFailure) {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .usage(
                "unwritable_file",
                errno == EEXIST
                    ? "\"\(path)\" is there already: a plan is never written over"
                    : "\"\(path)\" cannot be written: error \(errno) of the system"
            )
        }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { buffer in
                unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
            }
            guard count > 0 || errno == EINTR else {
                let because = errno
                // Half a plan must not be taken for a whole one.
                _ = unsafe unlink(path)
                throw .usage(
                    "unwritable_file",
                    "\"\(path)\" cannot be written: error \(because) of the system"
                )
            }
            rest = rest.dropFirst(max(count, 0))
        }
    }

    /// - Throws: exit 2 where it is no plan of ours.
    init(path: String) throws(CommandFailure) {
        let bytes = try InputFile.read(path, byteCountMax: Self.byteCountMax)
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
        guard object["tollwayReplayPlan"] as? Int == Self.version else {
            throw bad("tollwayReplayPlan must be \(Self.version)")
        }
        guard let prefix = object["prefix"] as? String,
            let clusterID = object["clusterId"] as? String,
            let filter = object["filter"] as? String,
            let texts = object["records"] as? [String: String]
        else {
            throw bad("prefix, clusterId, filter or records is missing")
        }
        var ranges: [LetterPartition: [ClosedRange<Int64>]] = [:]
        for (name, text) in texts {
            guard let position = LetterPosition("\(name)/0", prefix: prefix) else {
                throw bad("\"\(name)\" is no partition of dead letters")
            }
            let partition = LetterPartition(stage: position.stage, partition: position.partition)
            ranges[partition] = try LetterFilter.ranges("records", text)
        }
        guard let records = PositionSet(ranges) else {
            throw bad("records are not ascending")
        }
        self.prefix = prefix
        self.clusterID = clusterID
        self.filter = filter
        self.records = records
        rate = object["rate"] as? Int
        replayCountMax = object["replaysMax"] as? Int
        if let text = object["patch"] as? String {
            do {
                patch = try MergePatch(Array(text.utf8))
            } catch {
                throw bad("patch is no JSON object: \(error.message)")
            }
        }
    }
}
