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
        let verified = try checkLedger(held: run.killer.held)
        try checkAccounts(apple: try run.run.appleSide())
        sentence =
            "audit: \(contents.recordCount) records, \(stores.storeCount) stores with"
            + " \(stores.entryCount) entries like their changelogs"
            + " (\(stores.discardedCount) left behind are made anew),"
            + " \(run.killer.held.count) reporters killed between Apple's 200 and their commit"
            + " (\(verified) then verified),"
            + " \(run.transactions.mended.count) hanging transactions ended by hand"
    }

    /// The ledger has one line an intent.
    ///
    /// - Returns: how many of the reports whose 200 a reporter took to its grave were found again by
    ///   asking.
    private mutating func checkLedger(held: Set<ReporterKiller.Held>) throws -> Int {
        var outcomes: [String: [ReportOutcome]] = [:]
        for record in contents[.reportsOutcomes] {
            let value = record.value ?? []
            let outcome = try ReportOutcome(reading: value.span)
            outcomes[outcome.requestIdentifier, default: []].append(outcome)
        }
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

    /// What `report` believes to have been told is what Apple was told.
    private mutating func checkAccounts(apple: [String: [String]]) throws {
        var believed: [String: String] = [:]
        for record in contents[.reportState] {
            guard let key = record.key, let value = record.value,
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
