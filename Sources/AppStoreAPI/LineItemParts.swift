package import TokenDomain
internal import TokenWire

/// Cuts line items that are too many for one report into those of several, in their order.
///
/// A later item may name an earlier one, so the reports have to be sent one after the other.
package enum LineItemParts {
    /// Cuts line items.
    ///
    /// - Parameters:
    ///   - lineItems: a JSON array.
    ///   - externalPurchaseID: the token that the reports are about.
    /// - Returns: what each report carries: the text as it came where one report takes it.
    /// - Throws: what is wrong with the whole, or with an item that no report has room for.
    package static func parts(
        of lineItems: String,
        externalPurchaseID: TokenID
    ) throws(ReportRequestFault) -> [String] {
        do throws(ReportRequestFault) {
            try check(lineItems, externalPurchaseID)
            return [lineItems]
        } catch {
            switch error {
            case .tooLarge, .lineItemCount(2..., _): break
            case .lineItemsNotAnArray, .lineItemCount: throw error
            }
        }
        let room = ReportRequestBody.byteCountMax - frameByteCount(externalPurchaseID)
        var parts: [String] = []
        var part: [UInt8] = []
        var count = 0
        func end() {
            parts.append("[" + String(decoding: part, as: UTF8.self) + "]")
            (part, count) = ([], 0)
        }
        for item in try items(of: lineItems) {
            let isFull =
                count == ReportRequestBody.lineItemCountMax || part.count + 1 + item.count > room
            if isFull, count > 0 {
                end()
            }
            if count > 0 {
                part.append(UInt8(ascii: ","))
            }
            part += item
            count += 1
        }
        end()
        for part in parts {
            try check(part, externalPurchaseID)
        }
        return parts
    }

    /// The id of each line item, in order; those without one are left out.
    package static func ids(of lineItems: String) -> [String] {
        (JSONValue(Array(lineItems.utf8))?.elements ?? []).compactMap { $0["lineItemId"]?.text }
    }

    /// The oldest `creationDate` among the line items that are new: a restatement is not.
    package static func oldestSale(in lineItems: String) -> Timestamp? {
        (JSONValue(Array(lineItems.utf8))?.elements ?? [])
            .filter { $0["restatement"] != .bool(true) }
            .compactMap { $0["creationDate"]?.integer }.min()
            .map { Timestamp(milliseconds: $0) }
    }

    /// An identifier of ours has 36 characters, as every UUID.
    private static func check(
        _ lineItems: String,
        _ id: TokenID
    ) throws(ReportRequestFault) {
        _ = try ReportRequestBody(
            requestIdentifier: ReportPolicy.nameSpace,
            externalPurchaseID: id,
            lineItems: lineItems
        )
    }

    /// Bytes of a report beside its line items.
    private static func frameByteCount(_ id: TokenID) -> Int {
        ReportRequestBody(
            requestIdentifier: ReportPolicy.nameSpace,
            externalPurchaseID: id,
            status: .unrecognizedToken
        ).bytes.count + #","lineItems":[]"#.utf8.count
    }

    private static func items(of lineItems: String) throws(ReportRequestFault) -> [[UInt8]] {
        var items: [[UInt8]] = []
        do throws(WireFault) {
            try JSONScanner.scan(lineItems.utf8.span) { (scanner) throws(WireFault) in
                try scanner.beginArray()
                while try scanner.nextElement() {
                    items.append(try scanner.raw())
                }
            }
        } catch {
            throw .lineItemsNotAnArray
        }
        return items
    }
}
