import Foundation
import StageRuntime
import Testing

@testable import tollway

/// `tollway sim` as a process; what it answers is tested beside the simulator.
@Suite struct `The simulator's command` {
    @Test(arguments: [SIGINT, SIGTERM])
    func `prints its ports, serves until a signal, and ends cleanly`(signal: Int32) throws {
        let folder = try TemporaryFolder()
        let roots = folder.url.appendingPathComponent("roots.pem")
        let process = try TollwayProcess.make([
            "sim", "--port", "0", "-o", "json", "--fault", "429:every=50,retry-after=2s",
            "--roots", roots.path,
        ])
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let line = output.fileHandleForReading.availableData
        let ports = try #require(
            JSONSerialization.jsonObject(with: line) as? [String: Int]
        )
        #expect(Set(ports.keys) == ["production", "sandbox", "admin"])
        #expect(Set(ports.values).count == 3)
        kill(process.processIdentifier, signal)
        process.waitUntilExit()
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == (signal == SIGINT ? 130 : 0))
        let pem = String(decoding: try Data(contentsOf: roots), as: UTF8.self)
        #expect(pem.hasPrefix("-----BEGIN CERTIFICATE-----"))
    }

    @Test(arguments: [
        (["--fault", "teapot"], "unknown fault"), (["--fault", "429:every=0"], "every=0"),
        (["--port", "65534"], "--port"), (["--rate-window", "soon"], "--rate-window"),
        (["--rate-answer", "half"], "--rate-answer"), (["--notify", "ftp://x"], "--notify"),
        (["--clock-rate", "-1"], "--clock"), (["--clock", "noon"], "--clock"),
        (["--clock", "1760000000000", "--clock-rate", "x"], "--clock-rate is \"x\""),
        (["--reports-limit", "0"], "--reports-limit"),
        (["--apps", "/nonexistent"], "/nonexistent"),
    ])
    func `refuses what it cannot do with a sentence`(
        arguments: [String],
        part: String
    ) throws {
        let run = try TollwayProcess.run(
            ["sim", "--port", "0"].filter { _ in
                !arguments.contains("--port")
            } + arguments
        )
        #expect(run.exitCode == 2)
        #expect(run.talk.contains(part))
        #expect(run.talk.split(separator: "\n").count == 1)
    }

    /// The token that a simulator mints first after its start.
    private func firstToken(_ arguments: [String]) throws -> String {
        let process = try TollwayProcess.make(["sim", "--port", "0", "-o", "json"] + arguments)
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        defer {
            kill(process.processIdentifier, SIGTERM)
            process.waitUntilExit()
        }
        let line = output.fileHandleForReading.availableData
        let ports = try #require(JSONSerialization.jsonObject(with: line) as? [String: Int])
        let order =
            #"{"mint":{"event":"purchase","appAppleId":1,"bundleId":"com.example","customer":"c"}}"#
        let answer = try DemoHTTP(stop: StopSignal()).call(
            "POST",
            "http://127.0.0.1:\(try #require(ports["admin"]))/tokens",
            body: Array(order.utf8)
        )
        let body = Data(try #require(answer).body)
        let page = try JSONSerialization.jsonObject(with: body) as? [String: Any]
        let token = (page?["tokens"] as? [[String: Any]])?.first?["externalPurchaseId"] as? String
        return try #require(token, "\(String(decoding: body, as: UTF8.self))")
    }

    /// A platform keeps its state longer than a simulator lives.
    @Test func `mints other identifiers after each start, unless a seed is given`() throws {
        #expect(try firstToken([]) != firstToken([]))
        #expect(try firstToken(["--seed", "7"]) == firstToken(["--seed", "7"]))
    }

    @Test func `explains itself and every fault on one screen`() throws {
        let help = try TollwayProcess.run(["sim", "--help"]).output
        for word in ["--port", "--fault", "reset-after", "localhost:9502/tokens", "retry-after=2s"]
        {
            #expect(help.contains(word))
        }
        #expect(help.split(separator: "\n", omittingEmptySubsequences: false).count <= 52)
    }
}
