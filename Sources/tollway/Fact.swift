internal import Telemetry
internal import TokenDomain

/// Members of a JSON object; none where there is no value.
enum Fact {
    static func text(_ name: String, _ text: String?) -> [(name: String, json: String)] {
        text.map { [(name, JSONText.quoted($0))] } ?? []
    }

    static func date(_ name: String, _ date: Timestamp?) -> [(name: String, json: String)] {
        number(name, date?.milliseconds)
    }

    static func number(_ name: String, _ number: Int64?) -> [(name: String, json: String)] {
        number.map { [(name, "\($0)")] } ?? []
    }
}
