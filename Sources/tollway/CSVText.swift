/// Comma-separated values after RFC 4180, safe to open in a spreadsheet.
enum CSVText {
    /// A cell of text: quoted where it must be, and never taken for a formula.
    ///
    /// A spreadsheet runs what begins with one of these signs; an apostrophe makes it text.
    static func cell(_ text: String) -> String {
        let isFormula = text.utf8.first.map { formulaSigns.contains($0) } ?? false
        let plain = isFormula ? "'" + text : text
        guard plain.utf8.contains(where: { mustQuote.contains($0) }) else {
            return plain
        }
        return "\""
            + plain.split(separator: "\"", omittingEmptySubsequences: false)
            .joined(separator: "\"\"") + "\""
    }

    /// One line with its end; the cells are quoted already, or need no quotes.
    static func line(_ cells: [String]) -> String { cells.joined(separator: ",") + "\r\n" }

    private static let formulaSigns = Set("=+-@\t\r\n".utf8)
    private static let mustQuote = Set(",\"\r\n\t".utf8)
}
