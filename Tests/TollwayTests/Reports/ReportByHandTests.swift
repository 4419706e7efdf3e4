import Foundation
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A report by hand` {
    private static let id = TokenID("fc8badf8-e5ff-4f57-8194-ee4bcf33a574")
    private static let now = Timestamp(milliseconds: 1_800_000_000_000)

    private static func account(
        _ role: TokenRole?,
        accepted: ReportStatus?,
        type: TokenType? = nil
    ) -> TokenAccount {
        var account = TokenAccount(externalPurchaseID: id, touchedAt: now)
        account.appAppleID = 1
        account.bundleID = "com.example"
        account.role = role
        account.tokenType = type
        account.lastAccepted = accepted
        account.lastAcceptedAt = accepted.map { _ in now }
        return account
    }

    private static func report(
        _ status: ReportStatus,
        _ account: TokenAccount?,
        app: Int64 = 1,
        identifier: String? = nil
    ) -> ReportByHand {
        ReportByHand(
            request: ReportRequested(
                externalPurchaseID: id,
                appAppleID: app,
                bundleID: "com.example",
                status: status,
                requestIdentifier: identifier,
                lineItems: status == .lineItem ? #"[{"lineItemId":"a"}]"# : nil
            ),
            account: account,
            deadlineDays: 10,
            now: now
        )
    }

    /// What Apple accepted last, and what may follow for a token that we have.
    @Test(
        arguments: [
            (nil, [.lineItem, .noLineItem, .duplicateToken]),
            (.noLineItem, [.lineItem, .noLineItem]),
            (.lineItem, [.lineItem]),
            (.unrecognizedToken, [.lineItem, .noLineItem]),
            (.duplicateToken, []),
        ] as [(ReportStatus?, [ReportStatus])]
    )
    func `is refused where the order of statuses forbids it`(
        accepted: ReportStatus?,
        allowed: [ReportStatus]
    ) {
        let account = Self.account(.primary, accepted: accepted, type: .services)
        for status in ReportStatus.allCases {
            let report = Self.report(status, account)
            #expect((report.refusal == nil) == allowed.contains(status), "\(status)")
            // What is shown and what is done are one.
            let shown = report.rules.first { $0.status == status }
            #expect((shown?.because == nil) == allowed.contains(status), "\(status)")
        }
    }

    @Test func `says UNRECOGNIZED_TOKEN of no token that came in`() {
        for role in [TokenRole.primary, .seen] {
            let refusal = Self.report(.unrecognizedToken, Self.account(role, accepted: nil)).refusal
            #expect(refusal?.code == "request.status_order")
        }
        let noticed = Self.report(.unrecognizedToken, Self.account(nil, accepted: nil))
        #expect(noticed.refusal == nil)
        #expect(Self.report(.unrecognizedToken, nil).refusal == nil)
    }

    @Test func `is judged as report judges it`() {
        var account = Self.account(.primary, accepted: nil)
        #expect(
            Self.report(.noLineItem, account, app: 2).refusal?.code == "report.app_mismatch"
        )
        let services = Self.account(.primary, accepted: nil, type: .services)
        #expect(Self.report(.duplicateToken, services).refusal == nil)
        for type in [nil, TokenType(text: "LINK_OUT")] {
            let plain = Self.account(.primary, accepted: nil, type: type)
            #expect(Self.report(.duplicateToken, plain).refusal != nil)
        }
        // Nobody knows its type.
        #expect(Self.report(.duplicateToken, Self.account(nil, accepted: nil)).refusal == nil)
        let first = Self.report(.noLineItem, account).intent
        #expect(first?.number == 1)
        account.intentCount = 4
        let intent = Self.report(.noLineItem, account).intent
        #expect(intent?.number == 5 && intent?.identifier != first?.identifier)
        account.current = first
        let again = Self.report(.noLineItem, account, identifier: first?.identifier)
        #expect(again.refusal?.code == "request.under_way")
    }
}

@Suite(
    .serialized,
    .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped)
)
struct `tollway report request` {
    private static let id = "fc8badf8-e5ff-4f57-8194-ee4bcf33a574"

    private func run(_ world: DeadLetterWorld, _ arguments: String...) throws -> TollwayProcess {
        try TollwayProcess.run(
            ["report", "request", Self.id] + arguments + ["-o", "json"],
            environment: world.environment
        )
    }

    @Test func `writes nothing until told, and then where report looks for it`() throws {
        let world = try DeadLetterWorld()
        #expect(try run(world).exitCode == 2, "no status")
        #expect(try run(world, "--status", "LINE_ITEM").exitCode == 2, "no line items")
        let unknown = try run(world, "--status", "NO_LINE_ITEM")
        #expect(try unknown.exitCode == 3 && unknown.errorCode() == "request.unknown_token")
        let whose = ["--app", "1", "--bundle-id", "com.example"]
        func ask(_ more: String...) throws -> TollwayProcess {
            try TollwayProcess.run(
                ["report", "request", Self.id, "--status", "no_line_item", "-o", "json"] + whose
                    + more,
                environment: world.environment
            )
        }
        let dry = try ask()
        #expect(dry.exitCode == 5, "\(dry.talk)")
        #expect(try dry.object()["isWritten"] as? Bool == false)
        #expect((try dry.object()["rules"] as? [Any])?.count == ReportStatus.allCases.count)
        #expect(try ask("--yes").exitCode == 2, "no reason")
        #expect(try world.records(of: .reportsRequested, .audit).isEmpty)

        // Nobody reads it: there is no worker here.
        let sent = try ask("--yes", "--why", "lost in May", "--wait", "500ms")
        #expect(sent.exitCode == 4, "\(sent.talk)\(sent.output)")
        #expect(try sent.object()["state"] as? String == "written")
        let orderID = try #require(try sent.object()["orderId"] as? String)
        let records = try world.records(of: .reportsRequested)
        let record = try #require(records.first)
        #expect(records.count == 1 && record.key == Self.id)
        let key = Array(Self.id.utf8)
        #expect(record.partition == TopicReader.partition(ofKey: key, partitionCount: 4))
        #expect(record.headers["tollway.order_id"] == orderID)
        let place = "\(record.topic)/\(record.partition)/\(record.offset)"
        #expect(try sent.object()["position"] as? String == place)
        try world.expectValid(records, schema: "reports.requested.v1")
        let audit = try world.records(of: .audit)
        try world.expectValid(audit, schema: "audit.v1")
        let entry = try #require(try audit.first?.json())
        #expect(audit.count == 1 && entry["runId"] as? String == orderID)
        #expect(entry["why"] as? String == "lost in May")
        #expect((entry["by"] as? String)?.hasPrefix("somebody@") == true)
        #expect(try ask("--yes", "--why", "x", "--wait", "0s").exitCode == 0)

        let trace = try TollwayProcess.run(
            ["token", "trace", Self.id, "-o", "json"],
            environment: world.environment
        )
        #expect(trace.output.contains("by hand (\(orderID))"))
    }
}
