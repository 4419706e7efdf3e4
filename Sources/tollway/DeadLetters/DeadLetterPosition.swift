internal import TokenDomain

/// Where a dead letter lies, as people and `show` write it: `decode/3/1234`.
struct DeadLetterPosition: Hashable, Comparable, CustomStringConvertible {
    var stage: Worker
    var partition: Int32
    var offset: Int64

    var description: String { "\(stage.rawValue)/\(partition)/\(offset)" }

    /// The filter that matches this dead letter and no other.
    var options: String {
        "--stage \(stage.rawValue) --partition \(partition) --offset \(offset)"
    }
}

extension DeadLetterPosition {
    /// Reads `decode/3/1234`, also with the topic's full name in place of the stage's, and with
    /// Kafka's own `@` before the offset.
    init?(_ text: String, prefix: String) {
        let parts = text.split(
            separator: "/",
            maxSplits: 1,
            omittingEmptySubsequences: false
        ).enumerated().flatMap { index, part in
            index == 0
                ? [part] : part.split(omittingEmptySubsequences: false) { $0 == "/" || $0 == "@" }
        }
        guard parts.count == 3, let partition = Int32(parts[1]), partition >= 0,
            let offset = Int64(parts[2]), offset >= 0,
            let stage = DeadLetters.stages.first(where: {
                $0.rawValue == parts[0]
                    || Topic.deadLetters($0).name(prefix: prefix) == parts[0]
            })
        else {
            return nil
        }
        self.init(stage: stage, partition: partition, offset: offset)
    }

    /// The key of the record that says how it was settled.
    func settledKey(prefix: String) -> String {
        "\(Topic.deadLetters(stage).name(prefix: prefix))/\(partition)/\(offset)"
    }

    static func < (left: DeadLetterPosition, right: DeadLetterPosition) -> Bool {
        (left.stage.rawValue, left.partition, left.offset)
            < (right.stage.rawValue, right.partition, right.offset)
    }
}

/// What all verbs about dead letters agree on.
enum DeadLetters {
    /// Every stage that has dead letters, in the order of the pipeline.
    static let stages = Worker.allCases.filter { $0.deadLetters != nil }
}
