/// Why a message could not be read.
///
/// Whose fault that is, the caller knows: a record of ours that cannot be read is ours, one that
/// came in is the record's.
package enum WireFault: Error, Equatable, Sendable {
    /// Not JSON by RFC 8259, in strict UTF-8; the index is where reading stopped.
    case notJSON(byteIndex: Int)
    /// More than ``JSONScanner/depthMax`` objects and arrays inside one another.
    case tooDeep(byteIndex: Int)
    /// A required field is absent or null.
    case missing(field: String)
    /// A field, or the whole text where the name is empty, has another JSON type.
    case wrongType(field: String)
    /// An integer outside `Int64`, or a text that is none of the values defined.
    case outOfRange(field: String)
    /// A text is longer than its field may be; see ``TextLimit``.
    case tooLong(field: String, byteCountMax: Int)
    /// A known field stands twice: readers would differ on which of them counts.
    case repeated(field: String)

    /// One sentence without anything of the content but the names of fields.
    package var message: String {
        switch self {
        case .notJSON(let byteIndex): "not valid JSON at byte \(byteIndex)"
        case .tooDeep(let byteIndex):
            "more than \(JSONScanner.depthMax) levels of objects and arrays at byte \(byteIndex)"
        case .missing(let field): "the field \"\(field)\" is missing"
        case .wrongType(""): "not a JSON object"
        case .wrongType(let field): "the field \"\(field)\" has the wrong type"
        case .outOfRange(let field): "the field \"\(field)\" has a value out of range"
        case .tooLong(let field, let byteCountMax):
            "the field \"\(field)\" has more than \(byteCountMax) bytes"
        case .repeated(let field): "the field \"\(field)\" stands twice"
        }
    }
}
