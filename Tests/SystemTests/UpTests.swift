import Foundation
import Glibc
import LocalKafka
import Testing
import TokenDomain

@testable import tollway

/// A pipeline that stays takes the ports that everybody expects, so no two may start at once.
@Suite(.serialized) enum `Pipelines on the usual ports` {}

extension `Pipelines on the usual ports` {
    /// `tollway up` as it is called: a process, its workers, and what it prints.
    @Suite(.serialized) struct `A pipeline that stays` {
        @Test(arguments: [
            "decode", "decode=", "=2", "decode=0", "decode=13", "decode=two", "nobody=2",
            "decode=2=3",
        ])
        func `refuses instances that are none`(text: String) {
            #expect(throws: CommandFailure.self) { try UpCommand.instanceCounts([text]) }
        }

        @Test func `has so many instances as were asked for`() throws {
            let counts = try UpCommand.instanceCounts(["report=3", "decode=12", "report=2"])
            #expect(counts == [.report: 2, .decode: 12])
        }

        @Test func `is where one expects it, and says where else`() {
            var ports = LocalPorts(ingest: 8_080, admin: [:], simulator: 9_500, console: 9_490)
            for worker in Worker.allCases {
                ports.admin[worker] = Int(worker.adminPort)
            }
            #expect(ports.unusualPorts.isEmpty)
            ports.admin[.dedupe] = 20_000
            #expect(ports.unusualPorts == ["somebody listens on 9403: dedupe is on 20000"])
        }

        @Test(
            arguments: [
                ([], []), (["decode-up", "decode-up-2", "decode-up-12"], []),
                (["decode-up", "decode-pod-1"], ["decode-pod-1"]),
                (
                    ["decode-upper", "decode-up-a", "up", "rdkafka"],
                    [
                        "decode-upper", "decode-up-a", "up", "rdkafka",
                    ]
                ),
            ] as [([String], [String])]
        )
        func `knows who reads there by another's order`(
            names: [String],
            foreignMembers: [String]
        ) {
            #expect(GivenKafka.foreignMembers(.decode, among: names) == foreignMembers)
        }

        @Test func `finds another port where one is taken`() throws {
            let taken = try FreePorts.take(count: 1)[0]
            let listener = try Listener(port: taken)
            defer { listener.close() }
            #expect(try FreePorts.near(taken) != taken)
            #expect(try FreePorts.near(taken - 1, count: 2) != taken - 1)
        }

        @Test(.timeLimit(.minutes(10)))
        func `reports a token, and starts again what is killed`() throws {
            let up = try RunningUp(["--with", "decode=2"])
            defer { up.end() }
            let page = try up.page()
            let lines = try #require(page["lines"] as? [String])
            #expect(lines.contains { $0.contains(" token trace ") })
            let addresses = try #require(page["addresses"] as? [String: String])
            #expect(addresses["admin ports"]?.contains("decode-2 :") == true)

            // `up` prints the first death of a worker, and the second too.
            for _ in 0..<2 {
                try up.kill("tollway-decode")
                try up.awaitTalk("was killed by signal 9, and is started again")
                try up.awaitTalk("decode runs again", "decode-2 runs again")
            }
            for line in lines where line.hasPrefix("curl ") {
                try up.shell(line)
            }
            let trace = try #require(lines.last)
            try up.await("the report") {
                try up.shell(trace).contains("Apple accepted LINE_ITEM")
            }

            // Apple's side signs with another root after each start, and the door has to know it.
            let admin = try #require(
                addresses["Apple's side"]?.split(separator: ":").last.map(String.init)
            )
            #expect(Glibc.kill(try up.child(running: "sim"), SIGKILL) == 0)
            try up.awaitTalk("sim runs again")
            try up.awaitNotice(simulator: admin, door: try #require(addresses["door"]))

            let children = up.children().filter { $0.name.hasPrefix("tollway") }.map(\.identifier)
            // Two of decode, Apple's side, the broker, the console, and what it looks with.
            #expect(children.count >= Worker.allCases.count + 4)
            #expect(up.interrupt() == ExitCode.interrupted.rawValue)
            #expect(children.allSatisfy { !FileManager.default.fileExists(atPath: "/proc/\($0)") })
        }

        @Test(
            .enabled(
                if: LocalCluster.homeFromEnvironment != nil,
                "skipped: KAFKA_HOME names no Kafka, or there is no Java"
            ),
            .timeLimit(.minutes(15))
        )
        func `leaves a given Kafka to the one that runs there`() throws {
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("tollway-up-kafka-\(UUID().uuidString)").path
            let kafka = try LocalCluster(
                home: LocalCluster.homeFromEnvironment ?? "",
                folder: folder
            )
            defer { kafka.wipe() }
            try kafka.start()
            let settings = ["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrapServers]
            let first = try RunningUp([], settings: settings)
            defer { first.end() }
            _ = try first.page()

            // As from another machine, where the first one's lock is not seen.
            let second = try RunningUp(
                [],
                settings: settings.merging(
                    ["TMPDIR": first.folder.path, "XDG_RUNTIME_DIR": first.folder.path]
                ) { $1 }
            )
            defer { second.end() }
            #expect(try second.awaitEnd() == ExitCode.tryAgain.rawValue)
            #expect(try second.text("out").contains("is in the group"))
            let beside = try RunningUp([], settings: settings)
            defer { beside.end() }
            #expect(try beside.awaitEnd() == ExitCode.tryAgain.rawValue)
            #expect(try beside.text("out").contains("this Kafka is taken"))
            #expect(try !first.text("err").contains("is started again"))

            // Its names stay in the groups for a while, and nobody has them.
            #expect(first.interrupt() == ExitCode.interrupted.rawValue)
            let third = try RunningUp([], settings: settings)
            defer { third.end() }
            _ = try third.page()
        }
    }
}

/// A socket that listens, on loopback.
private struct Listener {
    let descriptor: Int32

    init(port: Int) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                unsafe bind(descriptor, raw, size)
            }
        }
        try #require(status == 0 && listen(descriptor, 1) == 0)
    }

    func close() {
        _ = Glibc.close(descriptor)
    }
}
