import AppStoreAPI
import HTTPClient
import StageRuntime
import Testing
import TokenDomain

@testable import report

@Suite struct `The rules of the report worker` {
    private func policy(_ settings: [String: String] = [:]) throws -> ReportPolicy {
        ReportPolicy(
            try Configuration(
                environment: settings.merging(["TOLLWAY_APPS_FILE": "apps"]) { $1 },
                program: .worker(.report),
                hostName: "host"
            )
        )
    }

    @Test func `follow the settings`() throws {
        let policy = try policy([
            "TOLLWAY_REPORT_HOLD": "3h",
            "TOLLWAY_REPORT_UNRECOGNIZED_GRACE": "7m",
            "TOLLWAY_REPORT_DEADLINE_DAYS": "4",
            "TOLLWAY_REPORT_MONTHLY_REPEAT": "off",
            "TOLLWAY_REPORT_UNKNOWN_REMINDERS": "note",
        ])
        #expect(policy.hold == .hours(3) && policy.unrecognizedGrace == .minutes(7))
        #expect(policy.deadlineDays == 4)
        #expect(!policy.repeatsMonthly && !policy.reportsUnknownReminders)
        let id = TokenID("t")
        #expect(policy.requestIdentifier(id, 2) == ReportPolicy.identifier(id, 2))
        #expect(policy.contentHash("[1]") == policy.contentHash("[ 1.0 ]"))
    }

    @Test func `repeat each month and report unknown reminders where nothing is set`() throws {
        let policy = try policy()
        #expect(policy.repeatsMonthly && policy.reportsUnknownReminders)
    }

    @Test func `leave answers half of the memory at most, and room for each report`() {
        let limits = ReportStage.httpLimits
        #expect(limits.concurrency * limits.responseByteCountMax <= 256 << 20)
        #expect(limits.responseByteCountMax > ReportRequestBody.byteCountMax)
    }
}
