internal import Foundation
internal import Glibc
internal import Telemetry

/// Commands under way for the page: started, waited for without waiting, and ended in time.
final class ConsoleJobs {
    /// What a command came to.
    struct Result {
        var exit: Int32
        /// One JSON document, or nothing.
        var data: [UInt8]
        /// What it said to a person.
        var talk: String
        /// Whether its time was over.
        var isTimedOut = false
        /// How long ago it began: what it says may be as old.
        var ageMilliseconds: Int64 = 0
    }

    private struct Job {
        var arguments: [String]
        var process: Process
        var output: URL
        var talk: URL
        var startedAt: Int64
        /// Nil: it takes the time it needs.
        var deadline: Int64?
        /// Whether it changes something.
        var isAct: Bool
        var killAt: Int64?
        /// Of each who asked.
        var done: [(Result) -> Void]
    }

    /// Each is a process with a Kafka client.
    static let countMax = 4
    /// The last place is for acts and for orders for lanes, which cannot wait for slow questions.
    static let questionCountMax = countMax - 1
    /// Who wait for one answer; as many as there can be connections.
    static let waiterCountMax = 128
    static let readMilliseconds: Int64 = 60_000
    private static let killMilliseconds: Int64 = 12_000
    private static let outputByteCountMax = 8 << 20
    private static let talkByteCountMax = 4 << 10
    private static let tooLarge =
        "the answer has more than \(outputByteCountMax >> 20) MiB: ask for it at a terminal"

    private let programs: ConsolePrograms
    private let folder: URL
    private var jobs: [Int: Job] = [:]
    private var number = 0
    /// Of the last job that had begun when an act ended.
    private var actEndNumber = 0

    init(programs: ConsolePrograms, folder: URL) {
        self.programs = programs
        self.folder = folder
    }

    var isIdle: Bool { jobs.isEmpty }

    /// Whether there is a place, among so many that run.
    static func hasPlace(besides count: Int, isUrgent: Bool) -> Bool {
        count < (isUrgent ? countMax : questionCountMax)
    }

    static let busy = ConsoleFault(
        "\(questionCountMax) commands run already: try again in a moment",
        status: 503
    )

    /// Asks a question; one that runs already answers both who ask it.
    ///
    /// - Throws: why it cannot be asked now.
    func ask(
        _ question: ConsoleQuestion,
        done: @escaping (Result) -> Void
    ) throws(ConsoleFault) {
        // What began before an act ended may not have seen what it did.
        let same = jobs.first {
            $0.key > actEndNumber && $0.value.arguments == question.arguments
                && $0.value.killAt == nil
        }
        if let same {
            guard same.value.done.count < Self.waiterCountMax else {
                throw ConsoleFault(
                    "\(Self.waiterCountMax) wait for this answer already: try again when it is here",
                    status: 503
                )
            }
            jobs[same.key]?.done.append(done)
            return
        }
        let verb = question.arguments.first
        guard !question.isAlone || !jobs.values.contains(where: { $0.arguments.first == verb })
        else {
            throw ConsoleFault(
                "Another \(verb ?? "") is being read, and there is memory for one: try again when"
                    + " it has ended",
                status: 503
            )
        }
        let job = start(question.arguments, milliseconds: question.milliseconds, done: done)
        guard job != nil else {
            throw Self.busy
        }
    }

    /// Starts a command; one that is urgent may take the last place.
    ///
    /// - Returns: its number; nil where there are too many, or the system gives no process.
    func start(
        _ arguments: [String],
        as name: String? = nil,
        milliseconds: Int64? = readMilliseconds,
        isUrgent: Bool = false,
        done: @escaping (Result) -> Void
    ) -> Int? {
        guard Self.hasPlace(besides: jobs.count, isUrgent: isUrgent) else {
            return nil
        }
        number += 1
        let output = folder.appendingPathComponent("job-\(number).out")
        let talk = folder.appendingPathComponent("job-\(number).err")
        do {
            try Data().write(to: output)
            try Data().write(to: talk)
            guard
                let process = programs.start(
                    arguments,
                    as: name,
                    output: try FileHandle(forWritingTo: output),
                    talk: try FileHandle(forWritingTo: talk)
                )
            else {
                return nil
            }
            let startedAt = WallClock.monotonicMilliseconds()
            jobs[number] = Job(
                arguments: arguments,
                process: process,
                output: output,
                talk: talk,
                startedAt: startedAt,
                deadline: milliseconds.map { startedAt + $0 },
                isAct: name != nil,
                done: [done]
            )
            return number
        } catch {
            // No room for its files: as if there were too many.
            return nil
        }
    }

    /// Asks one to end, as Ctrl-C does.
    func interrupt(_ number: Int) {
        jobs[number]?.process.interrupt()
    }

    /// Tells of those that have ended, and ends those whose time is over.
    func turn(now: Int64) {
        for number in jobs.keys {
            // As it stands now: who was answered before it may have asked this one meanwhile.
            guard var job = jobs[number] else {
                continue
            }
            guard job.process.isRunning else {
                jobs[number] = nil
                if job.isAct {
                    actEndNumber = self.number
                }
                let result = result(job, now: now)
                job.done.forEach { $0(result) }
                continue
            }
            if let deadline = job.deadline, now >= deadline, job.killAt == nil {
                job.killAt = now + Self.killMilliseconds
                jobs[number] = job
                job.process.terminate()
            }
            if let killAt = job.killAt, now >= killAt {
                kill(job.process.processIdentifier, SIGKILL)
            }
        }
    }

    private func result(_ job: Job, now: Int64) -> Result {
        let isSignal = job.process.terminationReason == .uncaughtSignal
        let status = job.process.terminationStatus
        let output = read(job.output, Self.outputByteCountMax + 1)
        let isTooLarge = output.count > Self.outputByteCountMax
        let result = Result(
            exit: isSignal ? 128 + status : status,
            data: isTooLarge ? [] : Self.json(output),
            talk: isTooLarge
                ? Self.tooLarge
                : String(decoding: read(job.talk, Self.talkByteCountMax), as: UTF8.self),
            isTimedOut: job.killAt != nil,
            ageMilliseconds: max(0, now - job.startedAt)
        )
        for file in [job.output, job.talk] {
            unlink(file.path)
        }
        return result
    }

    private func unlink(_ path: String) {
        // What cannot be removed goes with the folder.
        _ = unsafe Glibc.unlink(path)
    }

    private func read(_ file: URL, _ byteCountMax: Int) -> [UInt8] {
        do {
            let handle = try FileHandle(forReadingFrom: file)
            return Array(try handle.read(upToCount: byteCountMax) ?? Data())
        } catch {
            // The browser gets an exit code without data.
            return []
        }
    }

    /// Nothing where it is no document.
    private static func json(_ bytes: [UInt8]) -> [UInt8] {
        do {
            _ = try JSONSerialization.jsonObject(with: Data(bytes))
            return bytes
        } catch {
            return []
        }
    }

    /// Ends all, and waits.
    func stop() {
        for job in jobs.values where job.process.isRunning {
            job.process.interrupt()
        }
        let until = WallClock.monotonicMilliseconds() + Self.killMilliseconds
        for job in jobs.values {
            while job.process.isRunning, WallClock.monotonicMilliseconds() < until {
                usleep(20_000)
            }
            if job.process.isRunning {
                kill(job.process.processIdentifier, SIGKILL)
            }
        }
        jobs = [:]
    }
}
