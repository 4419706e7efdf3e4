/// Comma-separated values after RFC 4180, safe to open in a spreadsheet.
enum CSVText {
    /// A cell of text: quoted where it must be, and never taken for a formula.
    ///
    /// A spreadsheet runs what begins with one of these signs; an apostrophe makes it text. One whose
    /// separator is not the comma also finds the beginning of a cell within the text. A control
    /// character, which could steer a terminal, is replaced: the other forms have it.
    static func cell(_ given: String) -> String {
        let text = given.utf8.contains(where: mayBeControl) ? withoutControls(given) : given
        let isFormula = text.utf8.first.map { formulaSigns.contains($0) } ?? false
        let plain = (isFormula ? "'" : "") + withoutFormulas(text)
        guard plain.utf8.contains(where: { mustQuote.contains($0) }) else {
            return plain
        }
        // Byte by byte: with a mark behind it that combines, a quote is no Character of its own.
        var quoted = [UInt8(ascii: "\"")]
        for byte in plain.utf8 {
            quoted.append(byte)
            if byte == UInt8(ascii: "\"") {
                quoted.append(byte)
            }
        }
        return String(decoding: quoted + [UInt8(ascii: "\"")], as: UTF8.self)
    }

    /// One line with its end; the cells are quoted already, or need no quotes.
    static func line(_ cells: [String]) -> String { cells.joined(separator: ",") + "\r\n" }

    /// Also true of the first byte of those beyond ASCII.
    private static func mayBeControl(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == 0x7f || byte == 0xc2
    }

    private static func withoutControls(_ text: String) -> String {
        var plain = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            let isControl = scalar.properties.generalCategory == .control
            plain.append(isControl && !blanks.contains(scalar) ? "\u{fffd}" : scalar)
        }
        return String(plain)
    }

    /// Has an apostrophe before each sign that would begin a formula behind a separator.
    private static func withoutFormulas(_ text: String) -> String {
        guard text.utf8.contains(where: { separators.contains($0) }) else {
            return text
        }
        var plain: [UInt8] = []
        var isBehindSeparator = false
        for byte in text.utf8 {
            if isBehindSeparator, operators.contains(byte) {
                plain.append(UInt8(ascii: "'"))
            }
            if separators.contains(byte) {
                isBehindSeparator = true
            } else if byte != UInt8(ascii: " "), byte != UInt8(ascii: "\"") {
                isBehindSeparator = false
            }
            plain.append(byte)
        }
        return String(decoding: plain, as: UTF8.self)
    }

    /// In quotes they are text as any other.
    private static let blanks: Set<Unicode.Scalar> = ["\t", "\r", "\n"]
    private static let operators = Set("=+-@".utf8)
    private static let formulaSigns = Set("=+-@\t\r\n".utf8)
    /// The comma is ours, and is quoted.
    private static let separators = Set(";\t\r\n".utf8)
    private static let mustQuote = Set(",\"\r\n\t".utf8)
}
