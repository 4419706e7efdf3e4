/// A number with its noun, for sentences: `1 report`, `2 reports`.
enum CountText {
    static func of(_ count: Int, _ noun: String) -> String {
        of(count, noun, noun + "s")
    }

    /// Where the plural needs more than an s: `1 was`, `2 were`.
    static func of(_ count: Int, _ one: String, _ many: String) -> String {
        "\(count) " + (count == 1 ? one : many)
    }
}
