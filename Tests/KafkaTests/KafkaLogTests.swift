import Kafka
import RecordLogContract
import Testing

@Suite struct `The log on the embedded broker` {
    @Test(arguments: RecordLogContract.allCases)
    func `keeps the promise that it`(promise: RecordLogContract) throws {
        let mock = try MockBroker()
        defer { mock.close() }
        try promise.check(in: KafkaWorld(mock: mock))
    }
}
