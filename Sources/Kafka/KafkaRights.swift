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
    /// Kafka takes no request beyond 100 MB; a few are enough for what nobody stores.
    static let provableByteCountMax = 8 << 20

    let settings: KafkaSettings
    let deadlineMilliseconds: Int

    package init(settings: KafkaSettings, deadlineMilliseconds: Int) {
        self.settings = settings
        self.deadlineMilliseconds = deadlineMilliseconds
    }

    /// Whether records may be written, by topic; `topics` are pairs of a name and its
    /// `max.message.bytes`.
    ///
    /// A broker asks first whether the writer may, and then looks at the request. So each topic is sent
    /// one that must be refused: it wants two acknowledgements, and Kafka knows 0, 1 and all. To be
    /// sure that this broker refuses it too, the first record is larger than its topic takes, which is
    /// refused in any case.
    ///
    /// - Returns: nil where that broker refused it for its size, so that nothing is proven, and where
    ///   every topic takes more than ``provableByteCountMax``.
    package func write(
        to topics: [(name: String, byteCountMax: Int)]
    ) throws(LogFault) -> [String: Answer]? {
        let producer = try KafkaProducer(probing: settings, targets: topics.map(\.name))
        defer { producer.close(deadlineMilliseconds: deadlineMilliseconds) }
        var answers: [String: Answer] = [:]
        var isProven = false
        let smallestFirst = topics.indices.sorted {
            topics[$0].byteCountMax < topics[$1].byteCountMax
        }
        for index in smallestFirst {
            let byteCountMax = topics[index].byteCountMax
            guard isProven || byteCountMax <= Self.provableByteCountMax else {
                return nil
            }
            let answer = try ask(index, byteCount: isProven ? 2 : byteCountMax + 1, producer)
            switch answer {
            case .yes: isProven = true
            case .no(let code):
                guard code.hasSuffix("AUTHORIZATION_FAILED") else {
                    return nil
                }
            }
            answers[topics[index].name] = answer
        }
        return answers
    }

    private func ask(
        _ index: Int,
        byteCount: Int,
        _ producer: KafkaProducer
    ) throws(LogFault) -> Answer {
        var batch = OutputBatch()
        let value = batch.place(repeatElement(UInt8(ascii: " "), count: byteCount))
        batch.outputs.append(
            OutputBatch.Output(topic: index, partition: 0, key: .absent, value: value)
        )
        producer.hand(over: batch, tags: [0])
        _ = producer.flush(deadlineMilliseconds: deadlineMilliseconds)
        guard let receipt = try producer.takeReceipts().first else {
            throw .unavailable(
                code: "_TIMED_OUT",
                message: "\(producer.targets[index]) gave no answer"
            )
        }
        let code = receipt.failure ?? "stored"
        return code == Self.refusalOfAcks ? .yes : .no(code: code)
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
