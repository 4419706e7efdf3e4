import Foundation
import Testing

@Suite struct `tollway broker` {
    private static let ends: [(signal: Int32, exitCode: Int32)] = [(SIGINT, 130), (SIGTERM, 0)]

    @Test(arguments: ends)
    func `says where it is, and goes when told to`(signal: Int32, exitCode: Int32) throws {
        let process = try TollwayProcess.make(["broker", "-o", "json", "--topics", "a:3,b"])
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        // Blocks until the broker is ready and has said so.
        let line = output.fileHandleForReading.availableData
        let object = try JSONSerialization.jsonObject(with: line) as? [String: String]
        let servers = try #require(object?["bootstrapServers"])
        #expect(servers.hasPrefix("127.0.0.1:"))
        kill(process.processIdentifier, signal)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == exitCode)
    }

    @Test(.timeLimit(.minutes(1)))
    func `does not pretend to be exactly-once`() throws {
        let refused = try TollwayProcess.run(
            ["broker", "-o", "json"],
            environment: ["TOLLWAY_DELIVERY": "exactly-once"]
        )
        #expect(refused.exitCode == 2)
        #expect(try refused.errorCode() == "usage.delivery")
    }
}
