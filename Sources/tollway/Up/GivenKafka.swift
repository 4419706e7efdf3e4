internal import Foundation
internal import Glibc
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// What `tollway up` takes care of on a Kafka that is not its own: a pipeline that others run there.
enum GivenKafka {
    /// For each question; the first to a new cluster waits until Kafka has the topic of the groups.
    private static let deadlineMilliseconds = 60_000
    private static let lookMilliseconds = 500

    /// Those of a group's members that no `up` has started, by their `group.instance.id`.
    static func foreignMembers(_ worker: Worker, among names: [String]) -> [String] {
        let own = "\(worker.rawValue)-up"
        return names.filter { name in
            let isReplica = name.hasPrefix("\(own)-") && Int(name.dropFirst(own.count + 1)) != nil
            return name != own && !isReplica
        }
    }

    /// Looks who reads the topics under the prefix; to be called before anything is made.
    ///
    /// Kafka counts the workers of an `up` that has ended among a group's members until their
    /// session times out. Where there are some, this waits for two sessions: the second one is for
    /// a rebalance in progress.
    ///
    /// - Throws: exit 5 where a worker that `up` has not started does: this one would take a part
    ///   of its records and report them to the simulator. Exit 75 where workers of another `up`
    ///   stay: they have the names of ours, and each would fence the other for ever.
    ///   ``DemoInterrupted`` on the first signal.
    /// - Returns: what keeps others out until the end; nil for an embedded broker.
    static func refuseOthers(
        prefix: String,
        settings: KafkaSettings,
        http: DemoHTTP
    ) throws -> RunLock? {
        let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: deadlineMilliseconds)
        defer { admin.close() }
        let id = try admin.clusterID()
        guard !EmbeddedBroker.isClusterID(id) else {
            // It cannot be asked, and nothing that lasts is in it.
            return nil
        }
        let lock = try Self.lock(cluster: id, prefix: prefix, in: lockFolder)
        let seconds = settings.sessionMilliseconds * 2 / 1_000
        let deadline = Date().addingTimeInterval(Double(seconds))
        var isLogged = false
        while let other = try memberOfUp(prefix: prefix, admin) {
            guard Date() < deadline else {
                throw running("\(other) of this Kafka")
            }
            if !isLogged {
                isLogged = true
                Console.say(
                    "\(other) of this Kafka: an up that has ended leaves it within \(seconds) s"
                )
            }
            try http.pause(milliseconds: lookMilliseconds)
        }
        return lock
    }

    /// Nobody else can write where a session has a folder of its own.
    private static var lockFolder: URL {
        ProcessInfo.processInfo.environment["XDG_RUNTIME_DIR"]
            .flatMap { $0.hasPrefix("/") ? URL(fileURLWithPath: $0) : nil }
            ?? FileManager.default.temporaryDirectory
    }

    /// Keeps out another `up` of this user on this machine: two that start at the same moment see
    /// no member of each other.
    ///
    /// - Throws: exit 75 where another one has it.
    /// - Returns: nil where the file cannot be made: members are looked at all the same.
    static func lock(
        cluster id: String,
        prefix: String,
        in folder: URL
    ) throws(CommandFailure) -> RunLock? {
        let name = "tollway-up-\(getuid())-\(id)-\(prefix)lock"
        let file = folder.appendingPathComponent(name)
        guard let lock = try RunLock(file, or: running("this Kafka is taken")) else {
            Console.say(
                "\(file.path) cannot be written: an up that starts at this moment is not seen"
            )
            return nil
        }
        return lock
    }

    private static func running(_ how: String) -> CommandFailure {
        CommandFailure(
            .tryAgain,
            code: "up.running",
            "\(how): another tollway up uses it; end that one, or set another"
                + " \(Setting.topicPrefix.fullName)"
        )
    }

    /// One that another `up` has started, and its group; nil where nobody reads there.
    ///
    /// - Throws: exit 5 where somebody else does.
    private static func memberOfUp(prefix: String, _ admin: KafkaAdmin) throws -> String? {
        var other: String?
        for worker in Worker.allCases where !worker.sources.isEmpty {
            let group = worker.group(prefix: prefix)
            let names = try admin.group(group).members.map(\.name)
            if let member = foreignMembers(worker, among: names).first {
                throw CommandFailure(
                    .refusedBySafetyRule,
                    code: "up.live_pipeline",
                    "refused: \(member) reads in the group \(group) of this Kafka, and up would"
                        + " join it with Apple's simulator: set another"
                        + " \(Setting.topicPrefix.fullName)"
                )
            }
            other = other ?? names.first.map { "\($0) is in the group \(group)" }
        }
        return other
    }
}
