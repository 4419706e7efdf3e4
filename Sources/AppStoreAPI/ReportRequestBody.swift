package import TokenDomain
internal import TokenWire

/// Why a report cannot be written.
package enum ReportRequestFault: Error, Equatable, Sendable {
    /// The line items are no JSON array of objects.
    case lineItemsNotAnArray
    case lineItemCount(Int, countMax: Int)
    case tooLarge(byteCount: Int, byteCountMax: Int)

    package var message: String {
        switch self {
        case .lineItemsNotAnArray: "the line items are not a JSON array of objects"
        case .lineItemCount(let count, let countMax):
            "a report has 1 to \(countMax) line items, not \(count)"
        case .tooLarge(let byteCount, let byteCountMax):
            "the report has \(byteCount) bytes, and \(byteCountMax) are the most"
        }
    }
}

/// An `ExternalPurchaseReport` as it goes to Apple, byte for byte: made once, then frozen.
///
/// Source: ExternalPurchaseReport. Apple publishes no limits; ours are there to be hit first.
package struct ReportRequestBody: Equatable, Sendable {
    package static let lineItemCountMax = 100
    package static let byteCountMax = 256 << 10

    package let bytes: [UInt8]
    /// The newest `creationDate` among the line items; nil without any.
    package let newestCreationDate: Timestamp?
    /// The id of the line item, where it is the only one.
    private let onlyLineItemID: String?
    /// Besides its token it names nothing that Apple may not know: no item before it, and none again.
    private let namesTokenAlone: Bool

    /// A report that carries no line items.
    ///
    /// - Parameters:
    ///   - requestIdentifier: ours; a UUID.
    ///   - externalPurchaseID: the token reported.
    ///   - status: anything but LINE_ITEM.
    package init(
        requestIdentifier: String,
        externalPurchaseID: TokenID,
        status: ReportStatus
    ) {
        precondition(status != .lineItem, "LINE_ITEM says which line items")
        bytes = Self.written(requestIdentifier, externalPurchaseID, status, lineItems: nil)
        newestCreationDate = nil
        onlyLineItemID = nil
        namesTokenAlone = true
    }

    /// A report of line items.
    ///
    /// - Parameters:
    ///   - requestIdentifier: ours; a UUID.
    ///   - externalPurchaseID: the token reported.
    ///   - lineItems: a JSON array; it is sent as it stands.
    /// - Throws: what is wrong with the line items as a whole; what they say is Apple's to judge.
    package init(
        requestIdentifier: String,
        externalPurchaseID: TokenID,
        lineItems: String
    ) throws(ReportRequestFault) {
        let text = Array(lineItems.utf8)
        guard text.count <= Self.byteCountMax else {
            throw .tooLarge(byteCount: text.count, byteCountMax: Self.byteCountMax)
        }
        guard let items = JSONValue(text)?.elements, items.allSatisfy({ $0.members != nil }) else {
            throw .lineItemsNotAnArray
        }
        guard (1...Self.lineItemCountMax).contains(items.count) else {
            throw .lineItemCount(items.count, countMax: Self.lineItemCountMax)
        }
        let bytes = Self.written(requestIdentifier, externalPurchaseID, .lineItem, lineItems: text)
        guard bytes.count <= Self.byteCountMax else {
            throw .tooLarge(byteCount: bytes.count, byteCountMax: Self.byteCountMax)
        }
        self.bytes = bytes
        newestCreationDate = items.compactMap { $0["creationDate"]?.integer }.max()
            .map { Timestamp(milliseconds: $0) }
        onlyLineItemID = items.count == 1 ? items[0]["lineItemId"]?.text : nil
        namesTokenAlone = items.allSatisfy { item in
            Self.membersThatName.allSatisfy { item[$0] == nil }
        }
    }

    /// Members of a line item that refer to one that Apple is to have.
    private static let membersThatName = [
        "referenceLineItemId", "restatement", "erroneouslySubmitted",
    ]

    /// A reason with what Apple left out of it, where only one thing of the report can be meant.
    ///
    /// The field and the line item "may be present" (apple-api 2.7): what a reason asks for must not
    /// hang on them.
    func completed(_ error: AppleError) -> AppleError {
        var error = error
        if error.isRepeatedLineItem {
            error.lineItemID = error.lineItemID ?? onlyLineItemID
        }
        if error.name == .notFound, error.fieldName == nil, error.lineItemID == nil,
            namesTokenAlone
        {
            error.fieldName = "externalPurchaseId"
        }
        return error
    }

    /// What it says, to be compared with what Apple holds.
    var json: JSONValue {
        guard let json = JSONValue(bytes) else {
            preconditionFailure("a body of our own making is JSON")
        }
        return json
    }

    private static func written(
        _ requestIdentifier: String,
        _ externalPurchaseID: TokenID,
        _ status: ReportStatus,
        lineItems: [UInt8]?
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("requestIdentifier", requestIdentifier)
        writer.field("externalPurchaseId", externalPurchaseID.text)
        writer.field("status", status.rawValue)
        if let lineItems {
            writer.field("lineItems", raw: lineItems)
        }
        writer.endObject()
        return writer.bytes
    }
}
