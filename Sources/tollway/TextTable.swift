/// Rows for a person: columns as wide as their widest entry, numbers to the right.
struct TextTable {
    struct Column {
        var title: String
        var isNumber = false
    }

    var columns: [Column]
    /// As many cells a row as there are columns.
    var rows: [[String]] = []

    /// The last column is not filled up, so that no line ends in blanks.
    var text: String {
        let lines = [columns.map(\.title)] + rows
        let widths = columns.indices.map { index in lines.map { $0[index].count }.max() ?? 0 }
        return lines.map { cells in
            var line = ""
            for (index, cell) in cells.enumerated() {
                let blanks = String(repeating: " ", count: widths[index] - cell.count)
                let isLast = index == cells.count - 1
                line += columns[index].isNumber ? blanks + cell : cell + (isLast ? "" : blanks)
                line += isLast ? "\n" : "  "
            }
            return line
        }
        .joined()
    }
}
