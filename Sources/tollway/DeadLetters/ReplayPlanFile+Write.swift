internal import Glibc
internal import Telemetry
internal import TokenDomain

extension ReplayPlanFile {
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
            ("action", JSONText.quoted(order.action.rawValue)),
            ("made", JSONText.quoted(WallClock.rfc3339(milliseconds: now.milliseconds))),
            ("by", JSONText.quoted(order.hand.by)),
            ("clusterId", JSONText.quoted(clusterID)),
            ("prefix", JSONText.quoted(order.prefix)),
            ("filter", JSONText.quoted(order.filter.text)),
            ("matched", "\(text.plan.matchedCount)"),
            (order.action == .replay ? "goBack" : "go", "\(text.plan.records.count)"),
            ("skipped", "\(text.plan.skippedCount)"),
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
            ("skipReasons", lines(text.skipReasons)),
        ]
        let headers: [(String, String)] = [
            ("headersDropped", JSONText.quoted(DeadLetterShipment.droppedHeaders)),
            ("headersSet", lines(DeadLetterShipment.setHeaders.map { JSONText.quoted($0) })),
        ]
        let records: [(String, String)] = [
            (
                "records",
                "{\n    "
                    + ranges.map { "\(JSONText.quoted($0.name)): \($0.json)" }
                    .joined(separator: ",\n    ") + "\n  }"
            )
        ]
        // A discard keeps them all.
        let all = members + (order.action == .replay ? headers : []) + records
        let body = all.map { "  \(JSONText.quoted($0.0)): \($0.1)" }.joined(separator: ",\n")
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
}
