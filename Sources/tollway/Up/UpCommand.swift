internal import Foundation
internal import Glibc
internal import Kafka
internal import LocalKafka
internal import StageRuntime
internal import TokenDomain

/// `tollway up`: the whole pipeline on this machine, until a signal to stop.
enum UpCommand {
    /// Instances of one worker; more than a topic has partitions have nothing to do.
    static let instanceCountMax = DemoCluster.partitionCount

    static let verb = Verb(
        words: ["up"],
        summary: "the whole pipeline on this machine until Ctrl-C, to try it by hand",
        options: [
            .value(
                "--dir",
                "DIR",
                "keep logs, keys, state and Kafka's data there; default: nothing is kept"
            ),
            .value(
                "--with",
                "WORKER=N",
                "so many instances of a worker, 1 to \(instanceCountMax)",
                isRepeatable: true
            ),
        ],
        details: """
            Starts a Kafka, Apple's simulator and every worker as processes of their own, and
            prints where they listen and what to paste to see a token go through. Kafka is
            the one of TOLLWAY_KAFKA_BOOTSTRAP_SERVERS where that is set (its topics are kept,
            missing ones are made), else a node of its own from KAFKA_HOME, else the embedded
            broker, which forgets everything at the end and takes no replays of dead letters.
            Exit 5 where workers that no up has started read under the prefix on a Kafka that is
            set: they are a pipeline that somebody runs, and up would take its records. Exit 75
            where those of another up do; up waits 30 s for those of one that has ended.
            A process that ends by itself is named and started again. Other TOLLWAY_ settings
            go to every worker; a token nothing was bought with is reported after 10 s unless
            TOLLWAY_REPORT_HOLD says otherwise. Apple's simulator forgets what it issued when
            it ends. Ctrl-C stops all of it; a second one at once. Everything listens on
            loopback, without keys.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let counts = try instanceCounts(invocation.values("--with"))
        let servers = ProcessInfo.processInfo.environment[Setting.kafkaBootstrapServers]
        return try DemoInterrupted.ending("up", kafka: servers) {
            try run(invocation, counts)
        }
    }

    /// - Throws: exit 2 where one names no worker, or no number of instances.
    static func instanceCounts(_ texts: [String]) throws(CommandFailure) -> [Worker: Int] {
        var counts: [Worker: Int] = [:]
        for text in texts {
            let parts = text.split(separator: "=", omittingEmptySubsequences: false)
            guard parts.count == 2, let worker = Worker(rawValue: String(parts[0])),
                let count = Int(parts[1]), (1...instanceCountMax).contains(count)
            else {
                throw .usage(
                    "bad_value",
                    "--with is \"\(text)\": it must be WORKER=N, with one of"
                        + " \(Worker.allCases.map(\.rawValue).joined(separator: ", ")) and a number"
                        + " from 1 to \(instanceCountMax)"
                )
            }
            counts[worker] = count
        }
        return counts
    }

    private static func run(_ invocation: Invocation, _ counts: [Worker: Int]) throws -> ExitCode {
        let stop = StopSignal()
        let folder = try invocation.value("--dir").map { try kept($0) }
        let runFolder = try folder == nil ? RunFolder(of: "up") : nil
        defer { runFolder?.end(isKept: false) }
        guard let url = folder ?? runFolder?.url else {
            preconditionFailure("a run has a folder")
        }
        let file = url.appendingPathComponent("lock")
        let lock = try RunLock(
            file,
            or: CommandFailure(
                .tryAgain,
                code: "up.folder",
                "another tollway up uses \(url.path): end it, or name another --dir"
            )
        )
        guard let lock else {
            throw CommandFailure(.failed, code: "up.folder", "\(file.path) cannot be written")
        }
        defer { lock.release() }
        let run = try UpRun(
            folder: url,
            isKept: folder != nil,
            counts: counts,
            environment: ProcessInfo.processInfo.environment,
            http: try DemoHTTP(stop: stop)
        )
        defer { run.end() }
        do {
            try run.start()
            let page = try UpPage(run)
            Console.write(page.text(format: invocation.output))
            try run.supervise()
        } catch is DemoInterrupted {
            Console.say("stopping")
            return stop.wait(milliseconds: 0) ?? .interrupted
        }
    }

    /// Made where it is missing, for the eyes of this user.
    private static func kept(_ path: String) throws(CommandFailure) -> URL {
        let url = URL(fileURLWithPath: path)
        do {
            try FileManager.default.createDirectory(
                at: url,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw .usage("bad_value", "--dir \(path) cannot be made: \(error.localizedDescription)")
        }
        return url
    }
}

/// Keeps a second run out; the system takes it back from a process that is killed.
struct RunLock {
    private let descriptor: Int32

    /// Locks a file, which is made where it is missing.
    ///
    /// - Throws: `refusal` where another run has it.
    /// - Returns: nil where the file cannot be written.
    init?(_ file: URL, or refusal: CommandFailure) throws(CommandFailure) {
        descriptor = unsafe open(file.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            return nil
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw refusal
        }
    }

    func release() {
        close(descriptor)
    }
}
