import Foundation
import TokenDomain

@testable import purchases

/// Everything that must hold of the sales once all workers have gone, whatever became of the workers
/// meanwhile.
///
/// It knows nothing of what the sales were made to be: that is the account of ``StormSales``. Here
/// the parties are held against each other, item by item.
struct SalesAudit {
    /// Differences named one by one; the rest is only counted.
    static let differenceCountMax = 5

    private(set) var differences: [String] = []
    private let evidence: SalesEvidence

    init(_ evidence: SalesEvidence) {
        self.evidence = evidence
        compareBooks()
        checkOutcomes()
        checkDeadLetters()
        checkHeld()
        checkAnswers()
        tell("Apple refused what was not planned", Self.unplannedRefusals(evidence.requests))
    }

    /// What Apple accepted, what our ledger says was reported, and what our book has of it.
    private mutating func compareBooks() {
        var reported: [String: [PurchaseOutcome]] = [:]
        for outcome in evidence.outcomes where outcome.outcome == .reported {
            reported[outcome.lineItemID, default: []].append(outcome)
        }
        var found: [String] = []
        for id in Set(reported.keys).union(evidence.apple.keys) {
            let ours = reported[id] ?? []
            let apple = evidence.apple[id]
            let booked = evidence.book[id]
            let newest = ours.max { $0.revision < $1.revision }
            if ours.count != apple?.versionCount ?? 0 {
                found.append(
                    "\(id) is reported \(ours.count) times, and Apple has"
                        + " \(apple?.versionCount ?? 0) versions"
                )
            } else if ours.map(\.revision).sorted() != Array(1...ours.count) {
                found.append("\(id) is reported as revisions \(ours.map(\.revision))")
            } else if Self.object(newest?.item) != apple?.item {
                found.append("\(id) is with Apple another than in the ledger")
            } else if booked?.revision != ours.count {
                found.append("\(id) is in the book at revision \(booked?.revision ?? 0)")
            } else if booked?.live?.requestIdentifier != newest?.requestIdentifier {
                found.append("\(id) is in the book under another report")
            } else if booked?.live?.isRetracted
                != (apple?.item["erroneouslySubmitted"] as? Bool ?? false)
            {
                found.append("\(id) is retracted on one side only")
            }
        }
        for (id, item) in evidence.book where reported[id] == nil && item.live != nil {
            found.append("\(id) is live in the book, and the ledger has no report of it")
        }
        tell("Apple's book and ours differ", found)
    }

    private static func object(_ item: String?) -> NSDictionary? {
        guard let item else {
            return nil
        }
        do {
            return try JSONSerialization.jsonObject(with: Data(item.utf8)) as? NSDictionary
        } catch {
            // Then it differs from whatever Apple has, and says so.
            return nil
        }
    }

    /// No event has two outcomes; one that was not owed may be reported after all.
    private mutating func checkOutcomes() {
        var left: [String: Int] = [:]
        for event in evidence.received.values {
            left["\(event.lineItemID) \(event.type)", default: 0] += 1
        }
        for outcome in Self.final(evidence.outcomes) {
            left["\(outcome.lineItemID) \(outcome.type.rawValue)", default: 0] -= 1
        }
        tell(
            "more outcomes than events",
            left.filter { $0.value < 0 }.map { "\($0.key): \(-$0.value)" }
        )
        let settled = Set(evidence.outcomes.map { "\($0.lineItemID) \($0.type.rawValue)" })
        tell("stored and never settled", Set(left.keys).subtracting(settled))
    }

    /// Without those that a token reopened.
    static func final(_ outcomes: [PurchaseOutcome]) -> [PurchaseOutcome] {
        var final: [PurchaseOutcome] = []
        var notOwed: [String: Int] = [:]
        for outcome in outcomes {
            let key = "\(outcome.lineItemID) \(outcome.type.rawValue)"
            if outcome.outcome == .reported, let index = notOwed.removeValue(forKey: key) {
                final[index] = outcome
                continue
            }
            if outcome.outcome == .notOwed {
                notOwed[key] = final.count
            }
            final.append(outcome)
        }
        return final
    }

    /// A dead letter is a record byte for byte, there once, with a line of the ledger that says why.
    private mutating func checkDeadLetters() {
        var found: [String] = []
        var reasons: [String: Int] = [:]
        for outcome in evidence.outcomes where outcome.outcome == .rejected {
            reasons[
                "\(outcome.lineItemID) \(outcome.type.rawValue) \(outcome.reason)",
                default: 0
            ] += 1
        }
        var origins: Set<String> = []
        for deadLetter in evidence.deadLetters {
            guard let event = evidence.received[deadLetter.origin] else {
                found.append("\(deadLetter.origin) is no record of a sale")
                continue
            }
            if !origins.insert(deadLetter.origin).inserted {
                found.append("\(deadLetter.origin) is a dead letter twice")
            }
            if event.value != deadLetter.value {
                found.append("\(deadLetter.origin) is not the record byte for byte")
            }
            reasons["\(event.lineItemID) \(event.type) \(deadLetter.code)", default: 0] -= 1
        }
        for (key, count) in reasons where count != 0 {
            found.append(
                count > 0
                    ? "\(key) is rejected in the ledger, and no dead letter"
                    : "\(key) is a dead letter, and not in the ledger"
            )
        }
        tell("dead letters of sales", found)
    }

    /// Nothing waits for anything.
    private mutating func checkHeld() {
        tell(
            "still held",
            evidence.book.compactMap { id, item in
                switch item.wait {
                case .idle, .reopening: item.heldCount > 0 ? id : nil
                default: "\(id) (\(item.wait))"
                }
            }
        )
    }

    /// Each report that was asked for is answered once.
    private mutating func checkAnswers() {
        let asked = evidence.askedCounts
        let answered = evidence.answeredCounts
        tell(
            "reports asked for and answered differ",
            Set(asked.keys).union(answered.keys).filter { asked[$0] != answered[$0] }
                .map { "\($0): \(asked[$0] ?? 0) and \(answered[$0] ?? 0)" }
        )
    }

    /// Apple may refuse the identifier of a report that it has: its answer was lost on the way.
    static func unplannedRefusals(_ requests: [SalesEvidence.Request]) -> [String] {
        var accepted: Set<String> = []
        var found: [String] = []
        for request in requests where request.method == "PUT" {
            if request.outcome == "accepted" {
                accepted.insert(request.requestIdentifier)
            } else if request.status == 400, !accepted.contains(request.requestIdentifier) {
                found.append("\(request.requestIdentifier): codes \(request.errorCodes)")
            }
        }
        return found
    }

    private mutating func tell(_ sentence: String, _ found: some Collection<String>) {
        guard !found.isEmpty else {
            return
        }
        let examples = found.sorted().prefix(Self.differenceCountMax)
        differences.append("\(sentence): \(found.count): \(examples.joined(separator: "; "))")
    }
}
