/// What the credentials of some settings may do, asked so that nothing is left behind.
package struct KafkaRights {
    package enum Answer: Equatable, Sendable {
        case yes
        /// Kafka's name for its no.
        case no(code: String)
    }

    /// A number of replicas that no broker waits for.
    static let impossibleAcks = 2
    private static let refusalOfAcks = "INVALID_REQUIRED_ACKS"

    let settings: KafkaSettings
    let deadlineMilliseconds: Int

    package init(settings: KafkaSettings, deadlineMilliseconds: Int) {
        self.settings = settings
        self.deadlineMilliseconds = deadlineMilliseconds
    }

    /// Whether records may be written, by topic.
    ///
    /// A broker asks first whether the writer may, and then looks at the request. So each topic is sent
    /// one that must be refused: it wants two acknowledgements, and Kafka knows 0, 1 and all. To be
    /// sure that this broker refuses it too, the first one goes to a compacted topic and has no key,
    /// which is refused in any case.
    ///
    /// - Returns: nil where that broker refused it for another reason, so that nothing is proven.
    package func write(
        to topics: [String],
        firstTo compacted: String
    ) throws(LogFault) -> [String: Answer]? {
        let all = [compacted] + topics.filter { $0 != compacted }
        let producer = try KafkaProducer(probing: settings, targets: all)
        defer { producer.close(deadlineMilliseconds: deadlineMilliseconds) }
        var answers: [String: Answer] = [:]
        for indices in [0..<1, 1..<all.count] where !indices.isEmpty {
            var batch = OutputBatch()
            for index in indices {
                let value = batch.place("{}".utf8)
                batch.outputs.append(
                    OutputBatch.Output(topic: index, partition: 0, key: .absent, value: value)
                )
            }
            try producer.produce(batch, tags: indices.map(UInt64.init))
            _ = producer.flush(deadlineMilliseconds: deadlineMilliseconds)
            for receipt in try producer.takeReceipts() {
                let code = receipt.failure ?? "stored"
                answers[all[Int(receipt.tag)]] =
                    code == Self.refusalOfAcks ? .yes : .no(code: code)
            }
            if case .no(let code)? = answers[compacted], !code.hasSuffix("AUTHORIZATION_FAILED") {
                return nil
            }
        }
        for topic in all where answers[topic] == nil {
            throw .unavailable(code: "_TIMED_OUT", message: "\(topic) gave no answer")
        }
        return answers
    }

    /// Whether transactions may be made under a name.
    ///
    /// Takes the name over, so it must be nobody's.
    package func transactions(under name: String) throws(LogFault) -> Answer {
        let transactor = try KafkaTransactor(
            settings: settings,
            transactionalID: name,
            targets: []
        )
        defer { transactor.close() }
        do throws(LogFault) {
            try transactor.takeOver(deadlineMilliseconds: deadlineMilliseconds)
            return .yes
        } catch {
            guard case .misconfigured(let message) = error else {
                throw error
            }
            return .no(code: message)
        }
    }
}
