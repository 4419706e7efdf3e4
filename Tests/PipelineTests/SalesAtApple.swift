@testable import AppleSimulator

/// What the simulated Apple holds of sales, whose rules are none of the workers'.
extension AppleWorld {
    struct HeldSale: Equatable {
        var exclusive: Int64
        var country: String
        var isRetracted: Bool
    }

    /// The newest version of an item, of whatever app.
    func heldSale(_ id: String) -> HeldSale? {
        lineItemBooks.lazy.compactMap { $0.book.item(id) }.first.map { item in
            HeldSale(
                exclusive: item.amountTaxExclusive ?? -1,
                country: item.taxCountry ?? "",
                isRetracted: item.isRetraction
            )
        }
    }

    /// Every item that was accepted, each time, with the token it went under; in order of acceptance
    /// in each environment.
    var acceptedItems: [(token: String, item: String)] {
        StoreEnvironment.allCases.flatMap { environment in
            let store = reports(environment)
            return store.entries.flatMap { entry in
                let body = Self.body(Array(store.body(of: entry)))
                return (body.lineItems ?? []).map {
                    (body.externalPurchaseID ?? "", $0.lineItemID ?? "")
                }
            }
        }
    }

    /// Compares our book with Apple's.
    ///
    /// - Parameter ledger: the newest version of each item as we sent it, and how many there were.
    /// - Returns: a sentence for each difference.
    func differences(from ledger: [String: (item: String, versionCount: Int)]) -> [String] {
        var differences: [String] = []
        var names: Set<String> = []
        for (_, _, book) in lineItemBooks {
            for item in book.newest {
                let id = item.lineItemID ?? ""
                names.insert(id)
                guard let ours = ledger[id] else {
                    differences.append("\(id) is at Apple, and not in our book")
                    continue
                }
                if Self.item(ours.item) != item {
                    differences.append("\(id): Apple has \(item), we have \(ours.item)")
                }
                if book.versionCounts[id] != ours.versionCount {
                    differences.append(
                        "\(id): Apple has \(book.versionCounts[id] ?? 0) versions,"
                            + " we have \(ours.versionCount)"
                    )
                }
            }
        }
        for id in Set(ledger.keys).subtracting(names).sorted() {
            differences.append("\(id) is in our book, and not at Apple")
        }
        return differences
    }

    private static func item(_ json: String) -> LineItem? {
        do {
            return try LineItem(reading: JSONValue(reading: Array(json.utf8)))
        } catch {
            preconditionFailure("what Apple accepted can be read: \(error)")
        }
    }

    private static func body(_ bytes: [UInt8]) -> ReportBody {
        do {
            return try ReportBody(reading: bytes)
        } catch {
            preconditionFailure("what Apple accepted can be read: \(error)")
        }
    }
}

extension AppleAnswer {
    /// A 400 with one reason.
    static func refusal(code: Int, field: String?, lineItemID: String?) -> AppleAnswer {
        guard let code = ReportErrorCode(rawValue: code) else {
            preconditionFailure("Apple has no code \(code)")
        }
        return .errors([ReportError(code, field: field, lineItemID: lineItemID)])
    }

    /// Apple's whole list.
    static var codes: [Int] { ReportErrorCode.allCases.map(\.rawValue) }
}
