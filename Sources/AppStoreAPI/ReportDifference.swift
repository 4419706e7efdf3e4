/// One field that Apple holds otherwise than we sent it.
package struct ReportDifference: Equatable, Sendable {
    /// Of the line item; nil where the report itself differs.
    package var lineItemID: String?
    /// Apple's name of it; `lineItemId` where only one side has the line item.
    package var field: String
    /// As text; nil where it is absent.
    package var ours: String?
    package var apples: String?

    init(_ lineItemID: String?, _ field: String, _ ours: JSONValue?, _ apples: JSONValue?) {
        self.lineItemID = lineItemID
        self.field = field
        self.ours = ours.map(\.shown)
        self.apples = apples.map(\.shown)
    }
}

extension ReportRequestBody {
    /// Where a report that Apple holds says something else than this one.
    package func differences(from report: JSONValue) -> [ReportDifference] {
        ReportComparison.differences(sent: json, held: report)
    }
}

extension JSONValue {
    /// For a person; numbers by their digits.
    fileprivate var shown: String {
        switch self {
        case .string(let text): text
        case .number(let number): number.text
        case .bool(let flag): flag ? "true" : "false"
        case .null: "null"
        case .array(let elements): "[\(elements.count) elements]"
        case .object: "{…}"
        }
    }
}
