/// Text from outside, as a person at a terminal may see it.
package enum PlainText {
    /// One line, cut to a length; control characters, which could steer a terminal, are replaced.
    package static func printable(_ text: String, characterCountMax: Int) -> String {
        var printable = ""
        var count = 0
        for scalar in text.unicodeScalars {
            guard count < characterCountMax else {
                return printable + "…"
            }
            count += 1
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator:
                printable.unicodeScalars.append("\u{fffd}")
            default:
                printable.unicodeScalars.append(scalar)
            }
        }
        return printable
    }
}
