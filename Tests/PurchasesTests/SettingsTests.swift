import StageRuntime
import Testing
import TokenDomain

@testable import purchases

@Suite struct `The rules of the worker of sales` {
    @Test func `follow the settings`() throws {
        let policy = PurchasesStage.Policy(
            try Configuration(
                environment: [
                    "TOLLWAY_APPS_FILE": "apps",
                    "TOLLWAY_PURCHASES_TOKEN_WINDOW": "72h",
                    "TOLLWAY_PURCHASES_TOKEN_WAIT": "5h",
                ],
                program: .worker(.purchases),
                hostName: "host"
            )
        )
        #expect(policy.tokenWindow == .days(3) && policy.tokenWait == .hours(5))
    }
}
