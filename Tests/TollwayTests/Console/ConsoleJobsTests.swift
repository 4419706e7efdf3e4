import Foundation
import Glibc
import Telemetry
import Testing

@testable import tollway

@Suite(.timeLimit(.minutes(1))) struct `The console's jobs` {
    /// Commands that note that they began, and end with the test's leave.
    private struct Place {
        let folder: TemporaryFolder
        let jobs: ConsoleJobs
        private let begun: URL
        private let leave: URL

        init() throws {
            folder = try TemporaryFolder()
            begun = try folder.file("begun", Data())
            leave = begun.deletingLastPathComponent().appendingPathComponent("leave")
            let isMade = unsafe mkfifo(leave.path, 0o600) == 0
            try #require(isMade)
            let script = """
                #!/bin/sh
                [ "$1" = act ] && exit
                read -r line < \(leave.path)
                echo "$*" >> \(begun.path)
                echo '{"accounts":[]}'
                """
            let text = try folder.file("script", Data(script.utf8))
            // Written by a process of its own: a file that is open for writing here, or in what another
            // test has just forked, cannot be run ("text file busy").
            let program = text.deletingLastPathComponent().appendingPathComponent("program")
            let install = try Process.run(
                URL(fileURLWithPath: "/usr/bin/install"),
                arguments: ["-m", "700", text.path, program.path]
            )
            install.waitUntilExit()
            try #require(install.terminationStatus == 0)
            jobs = ConsoleJobs(
                programs: ConsolePrograms(
                    executable: program,
                    environment: ["PATH": "/usr/bin:/bin"]
                ),
                folder: begun.deletingLastPathComponent()
            )
        }

        /// Lets those that run end; what each was asked.
        func end(now: Int64 = 0) throws -> [String] {
            // Both sides: it opens without a reader, and each reader gets its line.
            let handle = try FileHandle(forUpdating: leave)
            try handle.write(contentsOf: Data(repeating: 0x0a, count: ConsoleJobs.countMax))
            while !jobs.isIdle {
                jobs.turn(now: now)
                sched_yield()
            }
            try handle.close()
            return try String(contentsOf: begun, encoding: .utf8)
                .split(separator: "\n").map(String.init)
        }
    }

    @Test func `answer all who ask the same while it runs`() throws {
        let place = try Place()
        var answers: [String] = []
        for name in ["mia", "noah", "ada", "bob", "eve"] {
            try place.jobs.ask(ConsoleQuestion(["ask": "account"])) { result in
                answers.append("\(name) \(result.exit) \(!result.data.isEmpty)")
            }
        }
        #expect(try place.end() == ["account -o json"])
        #expect(
            answers.sorted() == [
                "ada 0 true", "bob 0 true", "eve 0 true", "mia 0 true", "noah 0 true",
            ]
        )
    }

    @Test func `are one account at a time, whatever the month`() throws {
        let place = try Place()
        try place.jobs.ask(ConsoleQuestion(["ask": "account"])) { _ in }
        #expect(throws: ConsoleFault.self) {
            try place.jobs.ask(ConsoleQuestion(["ask": "account", "month": "2026-10"])) { _ in }
        }
        try place.jobs.ask(ConsoleQuestion(["ask": "groups"])) { _ in }
        #expect(try place.end().sorted() == ["account -o json", "dlq groups -o json"])
        try place.jobs.ask(ConsoleQuestion(["ask": "account", "month": "2026-10"])) { _ in }
        #expect(try place.end().last == "account -o json --month=2026-10")
    }

    @Test func `answer after an act with what was asked after it`() throws {
        let place = try Place()
        let question = try ConsoleQuestion(["ask": "groups"])
        var count = 0
        try place.jobs.ask(question) { _ in count += 1 }
        var isOver = false
        _ = place.jobs.start(["act"], as: "mia", isUrgent: true) { _ in isOver = true }
        while !isOver {
            place.jobs.turn(now: 0)
            sched_yield()
        }
        try place.jobs.ask(question) { _ in count += 1 }
        #expect(try place.end() == ["dlq groups -o json", "dlq groups -o json"])
        #expect(count == 2)
    }

    @Test func `join no answer whose time is over`() throws {
        let place = try Place()
        let question = try ConsoleQuestion(["ask": "groups"])
        var ends: [Bool] = []
        try place.jobs.ask(question) { ends.append($0.isTimedOut) }
        place.jobs.turn(
            now: WallClock.monotonicMilliseconds() + ConsoleJobs.readMilliseconds + 1
        )
        try place.jobs.ask(question) { ends.append($0.isTimedOut) }
        _ = try place.end()
        #expect(ends.sorted { $0 && !$1 } == [true, false])
    }

    @Test func `say how long ago they began to all who asked`() throws {
        let place = try Place()
        let question = try ConsoleQuestion(["ask": "account"])
        var ages: [Int64] = []
        try place.jobs.ask(question) { ages.append($0.ageMilliseconds) }
        try place.jobs.ask(question) { ages.append($0.ageMilliseconds) }
        _ = try place.end(now: WallClock.monotonicMilliseconds() + 600_000)
        #expect(ages.count == 2 && ages.allSatisfy { (600_000..<660_000).contains($0) }, "\(ages)")
    }

    @Test func `have an answer for so many at once`() throws {
        let place = try Place()
        let question = try ConsoleQuestion(["ask": "groups"])
        var count = 0
        for _ in 0..<128 {
            try place.jobs.ask(question) { _ in count += 1 }
        }
        #expect(throws: ConsoleFault.self) {
            try place.jobs.ask(question) { _ in count += 1 }
        }
        #expect(try place.end() == ["dlq groups -o json"])
        #expect(count == 128)
    }
}
