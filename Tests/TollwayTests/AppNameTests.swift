import Foundation
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `What names an app` {
    @Test(
        arguments: [
            ("1234567890", .number(1_234_567_890)),
            ("com.example.a", .bundle(BundleID("com.example.a"))),
            ("1.2", .bundle(BundleID("1.2"))), ("0", nil), ("", nil), ("-1", nil), ("a b", nil),
            ("99999999999999999999", nil),
        ] as [(String, AppName?)]
    )
    func `is a number of Apple's or a bundle id`(text: String, name: AppName?) throws {
        guard let name else {
            #expect(throws: CommandFailure.self) { try AppName.read(text, of: "--app") }
            return
        }
        let read = try AppName.read(text, of: "--app")
        #expect(read == name)
    }

    /// Each verb that has it; none of them comes as far as Kafka.
    @Test(arguments: [
        ["dlq", "ls"], ["ledger", "export"], ["ledger", "verify"], ["account"],
        ["notifications", "backfill", "--from", "1h"],
        ["report", "request", "id", "--status", "NO_LINE_ITEM"],
    ])
    func `is read the same by every verb`(words: [String]) throws {
        let apple = try SimulatedApple()
        let run = try TollwayProcess.run(
            words + ["--app", "a b", "-o", "json"],
            environment: apple.environment
        )
        #expect(run.exitCode == 2, "\(words)")
        #expect(try run.errorCode() == "usage.bad_value", "\(run.output)")
        #expect(run.output.contains("an appAppleId or a bundle id"), "\(run.output)")
    }
}
