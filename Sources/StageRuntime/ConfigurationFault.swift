internal import Telemetry

/// Why a program cannot start as it is configured.
///
/// It names the setting, in one sentence, exit 2.
package enum ConfigurationFault: Error, Equatable, Sendable {
    case unknownName(String, nearest: String?)
    case missing(setting: String, because: String)
    /// The value is no secret: those are in files.
    case invalid(setting: String, value: String, expected: String)
    case unreadableFile(setting: String, path: String, because: String)
    /// Both understood and refused, by a safety rule.
    case refused(setting: String, because: String)

    /// Stable and dotted, for `-o json` and the logs.
    package var code: String {
        switch self {
        case .unknownName: "config.unknown_name"
        case .missing: "config.missing"
        case .invalid: "config.invalid"
        case .unreadableFile: "config.unreadable_file"
        case .refused: "config.refused"
        }
    }

    /// The full name of the setting at fault.
    package var setting: String {
        switch self {
        case .unknownName(let name, _): name
        case .missing(let setting, _): setting
        case .invalid(let setting, _, _): setting
        case .unreadableFile(let setting, _, _): setting
        case .refused(let setting, _): setting
        }
    }

    /// One sentence for the person who set it.
    package var sentence: String {
        switch self {
        case .unknownName(let name, let nearest):
            "\(Self.shown(name)) is no setting of Tollway"
                + (nearest.map { "; did you mean \($0)?" } ?? "")
        case .missing(let setting, let because):
            "\(setting) is not set: \(because)"
        case .invalid(let setting, let value, let expected):
            "\(setting) is \"\(Self.shown(value))\": it must be \(expected)"
        case .unreadableFile(let setting, let path, let because):
            "\(setting) names \"\(Self.shown(path))\": \(because)"
        case .refused(let setting, let because):
            "\(setting) is refused: \(because)"
        }
    }

    /// A value as an error may show it: on one line, and short.
    static func shown(_ value: String) -> String {
        PlainText.printable(value, characterCountMax: 120)
    }
}
