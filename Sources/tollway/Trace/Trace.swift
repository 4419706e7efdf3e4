internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry

/// A search through the topics for all that is known of one token or sale.
protocol Trace {
    /// What is looked for, as it stands in a sentence.
    var subject: String { get }
    /// Oldest first.
    var events: [TraceEvent] { get }
    /// What was not looked at, and why.
    var notes: [String] { get }
    var readCount: Int { get }
    var topics: TopicSearch { get set }
    /// Whether no record of it was found.
    var isUnknown: Bool { get }
    /// For a person: what it is, the events, and what is owed now.
    var text: String { get }
    /// One object on one line.
    var json: String { get }

    mutating func run() throws(LogFault)
}

extension Trace {
    /// Searches, and prints what was found.
    ///
    /// - Throws: exit 3 where nothing was, 75 where an open transaction may hide it; what stops the
    ///   search.
    mutating func print(
        as output: OutputFormat,
        _ configuration: Configuration
    ) throws(CommandFailure) -> ExitCode {
        let startedAt = Date()
        let untouched = self
        try search(configuration)
        if isUnknown, topics.openTransactions?.wereThere == true {
            // A transaction that ended meanwhile may have hidden it.
            self = untouched
            try search(configuration)
        }
        let seconds = Date().timeIntervalSince(startedAt)
        guard !isUnknown else {
            let isHidden = topics.openTransactions?.partitions.isEmpty == false
            throw CommandFailure(
                isHidden ? .tryAgain : .nothingMatched,
                code: isHidden ? "trace.held_back" : "trace.unknown",
                "Kafka knows nothing of \(subject)"
                    + " (" + CountText.of(readCount, "record") + " looked at)"
                    + notes.map { "; " + $0 }.joined()
            )
        }
        switch output {
        case .table:
            Console.write(text)
            for note in notes {
                Console.say("note: \(note)")
            }
            Console.say(
                CountText.of(readCount, "record")
                    + " looked at in \(String(format: "%.1f", seconds)) s"
            )
        case .json:
            Console.write(json + "\n")
        case .ndjson:
            Console.write(events.map { $0.json + "\n" }.joined())
        }
        return .ok
    }

    private mutating func search(_ configuration: Configuration) throws(CommandFailure) {
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in try run() }
        try topics.lookForOpenTransactions(configuration)
    }

    /// A line for each event, below their titles.
    var eventTable: String {
        var table = TextTable(columns: [
            .init(title: "TIME"), .init(title: "STAGE"), .init(title: "EVENT"),
            .init(title: "RECORD"),
        ])
        table.rows = events.map { event in
            [
                WallClock.rfc3339(milliseconds: event.at), event.stage,
                PlainText.printable(event.text, characterCountMax: 160), event.place,
            ]
        }
        return table.text
    }

    /// The members that stand in the JSON of every trace.
    var commonMembers: [(name: String, json: String)] {
        [
            ("notes", JSONLines.texts(notes)),
            ("events", JSONLines.list(events.map(\.json))),
            ("recordsRead", "\(readCount)"),
        ]
    }
}
