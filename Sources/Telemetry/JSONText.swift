/// The little JSON that log lines and health answers need; messages have `TokenWire`.
package enum JSONText {
    /// A string with its quotes; control characters and quotes escaped.
    package static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case "\u{0}"..."\u{1f}", "\u{7f}"..."\u{9f}", "\u{2028}", "\u{2029}":
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    static func value(_ value: LogValue) -> String {
        switch value {
        case .text(let text): quoted(LogValue.shown(text))
        case .integer(let number): String(number)
        case .number(let number): number.isFinite ? "\(number)" : "null"
        case .flag(let flag): flag ? "true" : "false"
        }
    }
}
