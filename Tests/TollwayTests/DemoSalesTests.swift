import Foundation
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `The sales of the demo` {
    private static let now: Int64 = 1_760_000_000_000
    private static let sales = DemoSales(roundCount: 3, seed: 7, now: now)

    /// What the generator says of each is what the rules of the door say.
    @Test func `break the rules that they are made to break, and no other`() {
        for sale in Self.sales.sales {
            var codes: [String] = []
            do throws(PurchaseFaults) {
                _ = try PurchaseEvent.read(
                    Array(sale.line.utf8).span,
                    from: .door,
                    now: Timestamp(milliseconds: Self.now)
                )
            } catch {
                codes = error.list.map(\.code)
            }
            if case .refused(let code) = sale.end {
                #expect(codes == [code], "\(sale.line)")
            } else {
                #expect(codes.isEmpty, "\(sale.line)")
            }
        }
    }

    @Test func `break each rule once`() {
        let broken = Self.sales.sales.compactMap { sale -> String? in
            switch sale.end {
            case .refused(let code), .deadLetter(let code): code
            case .reported, .notOwed, .repeated: nil
            }
        }
        #expect(broken.count == Set(broken).count)
        // Those that only Apple, a month or 256 KiB can bring about.
        let left: [PurchaseRule] = [
            .rejected, .referenceUnknown, .itemTooLarge,
        ]
        let expected = Set(PurchaseRule.allCases).subtracting(left).map(\.code)
        #expect(Set(broken) == Set(expected))
    }

    @Test func `are of every kind, and the same for one seed`() {
        let classes = Set(Self.sales.sales.map(\.saleClass))
        #expect(classes == Set(DemoSaleClass.allCases))
        let again = DemoSales(roundCount: 3, seed: 7, now: Self.now)
        #expect(again.sales.map(\.line) == Self.sales.sales.map(\.line))
        #expect(Self.sales.buyers.count == Set(Self.sales.buyers.map(\.token.text)).count)
    }

    /// The expectation as the ledger, Apple's side and the door would show it.
    private struct Told {
        var refused: [String: String] = [:]
        var ledger: [DemoSalesAccount.LedgerEntry] = []
        var apple: [String: DemoItem] = [:]
        var deadLetters: [String: Int] = [:]
        var codes: [String: Int] = [:]

        init() {
            apple = sales.items.filter { $0.value.versionCount > 0 }
            for sale in sales.sales {
                var end: String?
                switch sale.end {
                case .reported: end = "reported"
                case .notOwed: end = "not_owed"
                case .repeated: break
                case .deadLetter(let code):
                    end = code
                    deadLetters[code, default: 0] += 1
                case .refused(let code): refused[sale.line] = code
                }
                if let end {
                    ledger.append(.init(lineItemID: sale.lineItemID, type: sale.type, end: end))
                }
            }
        }

        var account: DemoSalesAccount {
            DemoSalesAccount(
                truth: sales,
                refused: refused,
                ledger: ledger,
                apple: apple,
                deadLetters: deadLetters,
                rejectedCodes: codes
            )
        }
    }

    @Test func `close where everything is as it must be`() {
        let account = Told().account
        #expect(account.agrees, "\(account.differences)")
        #expect(account.rows.count == DemoSaleClass.allCases.count)
        #expect(!account.table().contains("DIFFERS"))
    }

    @Test(arguments: [
        "a line of the ledger is missing", "a line of the ledger is doubled",
        "Apple lacks an item", "Apple has one twice", "a dead letter is missing",
        "the door let one in", "Apple refused a report", "an app does not close",
    ])
    func `do not close where one thing is not`(difference: String) {
        var told = Told()
        var apps: [SaleAccount] = []
        switch difference {
        case "a line of the ledger is missing": told.ledger.removeFirst()
        case "a line of the ledger is doubled": told.ledger.append(told.ledger[0])
        case "Apple lacks an item": told.apple["sale-1"] = nil
        case "Apple has one twice": told.apple["sale-1"]?.versionCount += 1
        case "a dead letter is missing": told.deadLetters["purchases.conflict"] = nil
        case "the door let one in": told.refused = [:]
        case "Apple refused a report": told.codes["12"] = 1
        default:
            var app = SaleAccount(app: "7", pages: [])
            app.received = 1
            apps = [app]
        }
        var account = told.account
        account.apps = apps
        #expect(!account.agrees)
    }

    @Test func `are counted from what purchases shows`() {
        let page = """
            tollway_purchases_total{app="7",outcome="received",reason="buy"} 9
            tollway_purchases_total{app="7",outcome="repeat",reason="repeat"} 1
            tollway_purchases_total{app="7",outcome="reported",reason="accepted"} 3
            tollway_purchases_total{app="7",outcome="not_owed",reason="no_active_token"} 3
            tollway_purchases_total{app="7",outcome="reopened",reason="token"} 1
            tollway_purchases_total{app="7",outcome="dead_letter",reason="conflict"} 1
            tollway_purchases_total{app="8",outcome="received",reason="buy"} 5
            tollway_purchases_held{app="7",cause="rate"} 2
            """
        let account = SaleAccount(app: "7", pages: [page])
        #expect(account.closes)
        #expect(
            account.equation
                == "received 9 = repeats 1 + reported 3 + not owed 2 + dead letters 1 + held 2"
        )
    }
}

extension DemoToken {
    /// Its id, and when it was made.
    fileprivate var text: String { "\(externalPurchaseID) \(created)" }
}
