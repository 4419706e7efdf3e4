package import TokenDomain

/// What the body of an answer from Apple holds, of whatever shape it came in.
///
/// A body that is empty, cut off, not JSON or of another shape holds nothing: the status decides.
package struct AppleBody: Equatable, Sendable {
    /// The most reasons kept of one answer.
    ///
    /// A report that Apple has, sent again, earns one for each of its 100 line items and one for its
    /// identifier, in no order that is known: those of the report itself are kept first.
    package static let errorCountMax = 100

    /// From `errors[]`, or from one bare object; nil where the body holds none.
    package var errors: [AppleError]?
    /// `requestIdentifier`, with which Apple acknowledges a report.
    package var requestIdentifier: String?
    /// `report`, which Apple holds under an identifier.
    package var report: JSONValue?

    /// - Parameter bytes: of any content.
    package init(_ bytes: [UInt8]) {
        guard let body = JSONValue(bytes), body.members != nil else {
            return
        }
        requestIdentifier = body["requestIdentifier"]?.text
        report = body["report"].flatMap { $0.members == nil ? nil : $0 }
        let objects = body["errors"]?.elements ?? [body]
        let errors = objects.compactMap(Self.error)
        let ofReport = errors.filter { $0.lineItemID == nil }
        let ofLineItems = errors.filter { $0.lineItemID != nil }
        self.errors =
            errors.isEmpty ? nil : Array((ofReport + ofLineItems).prefix(Self.errorCountMax))
    }

    /// The report, where it stands under an identifier: another is no answer to the question for that.
    package func report(under identifier: String) -> JSONValue? {
        report?["requestIdentifier"]?.text?.lowercased() == identifier.lowercased() ? report : nil
    }

    /// Whether it is markup, and so no answer of Apple's.
    package static func isPage(_ bytes: [UInt8]) -> Bool {
        bytes.first { !isSpace($0) } == UInt8(ascii: "<")
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || (0x09...0x0d).contains(byte)
    }

    private static func error(_ object: JSONValue) -> AppleError? {
        object["errorCode"]?.integer.map { code in
            AppleError(
                code: code,
                fieldName: detail(object["fieldName"]),
                lineItemID: detail(object["lineItemId"])
            )
        }
    }

    /// What is longer than anything Apple names is not kept: it would lie in the state.
    private static func detail(_ value: JSONValue?) -> String? {
        value?.text.flatMap { TextLimit.errorDetail.holds($0) ? $0 : nil }
    }
}
