internal import Telemetry

/// One value of a row that becomes CSV or JSON: exactly as it was, never through floating point.
enum ExportValue: Equatable {
    case none
    case text(String)
    /// A number's own digits.
    case digits(String)
    /// UNIX milliseconds; in CSV a date and time in UTC.
    case time(Int64)
    case flag(Bool)

    var cell: String {
        switch self {
        case .none: ""
        case .text(let text): CSVText.cell(text)
        case .digits(let digits): digits
        case .time(let milliseconds): WallClock.rfc3339(milliseconds: milliseconds)
        case .flag(let flag): "\(flag)"
        }
    }

    /// Nil where there is no value.
    var json: String? {
        switch self {
        case .none: nil
        case .text(let text): JSONText.quoted(text)
        case .digits(let digits): digits
        case .time(let milliseconds): "\(milliseconds)"
        case .flag(let flag): "\(flag)"
        }
    }
}
