internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// What `tollway up` takes care of on a Kafka that is not its own: a pipeline that others run there.
enum GivenKafka {
    /// For each question; the first to a new cluster waits until Kafka has the topic of the groups.
    private static let deadlineMilliseconds = 60_000

    /// Those of a group's members that no `up` has started, by their `group.instance.id`.
    static func strangers(_ worker: Worker, among names: [String]) -> [String] {
        let own = "\(worker.rawValue)-up"
        return names.filter { name in
            let isReplica = name.hasPrefix("\(own)-") && Int(name.dropFirst(own.count + 1)) != nil
            return name != own && !isReplica
        }
    }

    /// Looks who reads the topics under the prefix; to be called before anything is made.
    ///
    /// - Throws: exit 5 where a worker that `up` has not started does: this one would take a part of
    ///   its records and report them to the simulator.
    static func refuseStrangers(prefix: String, settings: KafkaSettings) throws {
        let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: deadlineMilliseconds)
        defer { admin.close() }
        guard !EmbeddedBroker.isClusterID(try admin.clusterID()) else {
            // It cannot be asked, and nothing that lasts is in it.
            return
        }
        for worker in Worker.allCases where !worker.sources.isEmpty {
            let group = "\(prefix)\(worker.rawValue)"
            let names = try admin.group(group).members.map(\.name)
            guard let stranger = strangers(worker, among: names).first else {
                continue
            }
            throw CommandFailure(
                .refusedBySafetyRule,
                code: "up.live_pipeline",
                "refused: \(stranger) reads in the group \(group) of this Kafka, and up would join"
                    + " it with Apple's simulator: set another \(Setting.topicPrefix.fullName)"
            )
        }
    }
}
