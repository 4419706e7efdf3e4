internal import Foundation
internal import HTTPServer
internal import StageRuntime
internal import TokenDomain

/// `tollway console`: the page for those who run the pipeline.
enum ConsoleCommand {
    static let listenDefault = "127.0.0.1:\(LocalPorts.consoleDefault)"

    static let verb = Verb(
        words: ["console"],
        summary: "a page in the browser for those who run the pipeline",
        options: [
            .value("--listen", "ADDRESS", "where to listen; default: \(listenDefault)"),
            .value(
                "--admin",
                "HOST:PORT",
                "a worker's admin port; default: those of this machine",
                isRepeatable: true
            ),
            .value("--keys", "FILE", "who may come in: a line NAME KEY for each"),
            .value(
                "--origin",
                "URL",
                "how browsers reach it by a proxy with TLS: https://console.example.com"
            ),
        ],
        details: """
            Shows what the commands show: the pipeline, Apple's lanes, dead letters, a token's
            way, an account where there is one. It runs these commands with its own
            environment and changes nothing by itself. It replays or discards dead letters, and
            pauses or resumes a lane to Apple, only by a plan that was shown and is confirmed
            with a reason; each is in the audit topic with the name of who did it. On loopback
            it needs no key. Elsewhere, and behind a proxy, it wants --keys and --origin, and
            leaves TLS to the proxy.
            It answers to the address it listens on, localhost and the host of --origin alone.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let gate = try ConsoleGate(invocation)
        // Wrong settings are reported at the terminal, not on the page.
        _ = try KafkaQuestion.configuration()
        _ = try AdminPorts(invocation.values("--admin"))
        let stop = StopSignal()
        let folder: RunFolder
        do {
            folder = try RunFolder(of: "console")
        } catch {
            throw CommandFailure(.failed, code: "console.folder", "\(error)")
        }
        defer { folder.end(isKept: false) }
        let loop = try ConsoleLoop(
            gate: gate,
            admin: invocation.values("--admin"),
            folder: folder.url
        )
        let url = gate.origin ?? "http://\(gate.listen(port: loop.port))"
        Console.write(
            invocation.output == .table
                ? "\(url)\n" : JSONLines.object(Fact.text("url", url)) + "\n"
        )
        return loop.run(stop)
    }
}
