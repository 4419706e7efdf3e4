import Crypto
import Foundation
import Kafka
import StateStore
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import report
@testable import tollway

/// Everything that must hold once all workers have gone.
struct StormAudit {
    /// A request may be on its way while the answer to the one before it is being written down.
    private static let lateMillisecondsMax: Int64 = 1_000

    private(set) var differences: [String] = []
    /// What was looked at, in numbers.
    private(set) var sentence = ""

    private let contents: TopicContents
    private let prefix: String

    init(_ run: StormRun) throws {
        prefix = StormRun.prefix
        contents = try TopicContents(settings: run.run.settings, prefix: prefix)
        let roots = try Data(contentsOf: run.folder.appendingPathComponent("roots.pem"))
        let replay = try StageReplay(
            contents,
            prefix: prefix,
            apps: try AppsFile.load(run.folder.appendingPathComponent("apps.json").path),
            roots: try TrustedRoots(pem: Array(roots)),
            startedAt: Timestamp(
                milliseconds: Int64(run.startedAt.timeIntervalSince1970 * 1_000)
            )
        )
        differences += replay.differences
        var stores = StoreAudit(contents, prefix: prefix)
        for worker in Worker.allCases {
            let own = run.fleet.seat(Fleet.Member(worker: worker, number: 0))?.stateFolder
            for folder in run.fleet.stateFolders[worker, default: []] {
                try stores.check(
                    worker,
                    folder: folder,
                    partitionCount: folder == own ? DemoCluster.partitionCount : 0
                )
            }
        }
        differences += stores.differences
        let ledger = try Self.ledger(contents)
        let verified = checkLedger(ledger, held: run.killer.held)
        let requests = try run.requestsSeen()
        checkLateness(ledger, requests.filter { $0.method == "PUT" })
        let evidence = try SalesEvidence(
            contents,
            prefix: prefix,
            apple: try run.lineItemsHeld(),
            requests: requests
        )
        differences += SalesAudit(evidence).differences
        let sales = try run.salesAccount()
        try checkAccounts(apple: try run.run.appleSide())
        sentence =
            "audit: \(contents.recordCount) records, \(stores.storeCount) stores with"
            + " \(stores.entryCount) entries like their changelogs"
            + " (\(stores.discardedCount) left behind are made anew),"
            + " \(run.killer.held.count) reporters killed between Apple's 200 and their commit"
            + " (\(verified) then verified),"
            + " \(run.repair.repairedCount) markers of hanging transactions written,"
            + " \(evidence.received.count) events of \(evidence.apple.count) line items in"
            + " \(evidence.askedCounts.values.reduce(0, +)) reports"
            + " (\(sales?.inexactIDs.count ?? 0) items with an event stored twice,"
            + " \(sales?.reopenedCount ?? 0) reopened, \(evidence.deadLetters.count) dead letters)"
    }

    private static func ledger(_ contents: TopicContents) throws -> [String: [ReportOutcome]] {
        var outcomes: [String: [ReportOutcome]] = [:]
        for record in contents[.reportsOutcomes] {
            let value = record.value ?? []
            let outcome = try ReportOutcome(reading: value.span)
            outcomes[outcome.requestIdentifier, default: []].append(outcome)
        }
        return outcomes
    }

    /// Nobody sends a report that is settled: whoever owns the partition knows that it is, and who
    /// lost it, in a pause or to a twin, is to send nothing.
    private mutating func checkLateness(
        _ ledger: [String: [ReportOutcome]],
        _ sent: [SalesEvidence.Request]
    ) {
        let late = sent.compactMap { request -> (identifier: String, milliseconds: Int64)? in
            guard let outcome = ledger[request.requestIdentifier]?.last else {
                return nil
            }
            let milliseconds = request.at - outcome.settledAt.milliseconds
            return milliseconds > Self.lateMillisecondsMax
                ? (request.requestIdentifier, milliseconds) : nil
        }
        if let worst = late.max(by: { $0.milliseconds < $1.milliseconds }) {
            differences.append(
                "\(late.count) of \(sent.count) reports were sent after they were settled, such as"
                    + " \(worst.identifier) \(worst.milliseconds) ms after"
            )
        }
    }

    /// The ledger has one line an intent.
    ///
    /// - Returns: how many of the reports whose 200 a reporter took to its grave were found again by
    ///   asking.
    private mutating func checkLedger(
        _ outcomes: [String: [ReportOutcome]],
        held: Set<ReporterKiller.Held>
    ) -> Int {
        for (identifier, entries) in outcomes.sorted(by: { $0.key < $1.key })
        where entries.count > 1 {
            differences.append("the ledger has \(identifier) \(entries.count) times")
        }
        var verified = 0
        for report in held {
            switch outcomes[report.requestIdentifier]?.first?.outcome {
            case .verified: verified += 1
            case .accepted: break
            case let other:
                differences.append(
                    "\(report.externalPurchaseID), whose answer was taken away, is"
                        + " \(other.map { "\($0)" } ?? "unknown") in the ledger"
                )
            }
        }
        return verified
    }

    /// The reports that `report` counts as accepted are those that Apple has.
    private mutating func checkAccounts(apple: [String: [String]]) throws {
        var believed: [String: String] = [:]
        for record in contents[.reportState] {
            guard let key = record.key, let value = record.value, !WaitingReport.isKey(key),
                case .token(let account) = try Debtor(reading: value, key: key)
            else {
                continue
            }
            believed[account.externalPurchaseID.text] = account.lastAccepted?.rawValue
        }
        let wrong = Set(believed.keys).union(apple.keys)
            .filter { believed[$0] != apple[$0]?.last }.sorted()
        if let first = wrong.first {
            differences.append(
                "\(wrong.count) accounts differ from what Apple has, such as \(first):"
                    + " \(believed[first] ?? "nothing") and \(apple[first]?.last ?? "nothing")"
            )
        }
    }
}
