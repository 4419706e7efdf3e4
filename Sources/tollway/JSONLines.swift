internal import Telemetry

/// The two JSON forms of a list: one document, or one a line.
enum JSONLines {
    /// An object of names, and values that are JSON already.
    static func object(_ members: [(name: String, json: String)]) -> String {
        "{" + members.map { "\(JSONText.quoted($0.name)):\($0.json)" }.joined(separator: ",") + "}"
    }

    /// An array of values that are JSON already.
    static func list(_ values: [String]) -> String { "[" + values.joined(separator: ",") + "]" }

    static func texts(_ texts: [String]) -> String { list(texts.map(JSONText.quoted)) }

    /// The whole list; in the one document it is called `list`.
    static func text(_ objects: [String], list: String, format: OutputFormat) -> String {
        switch format {
        case .json: object([(list, Self.list(objects))]) + "\n"
        case .table, .ndjson: objects.map { $0 + "\n" }.joined()
        }
    }
}
