import Testing

@testable import Kafka

@Suite struct `A list of bootstrap servers` {
    @Test(
        arguments: [
            ("kafka-1:9093", ["kafka-1 9093"]), ("kafka-1", ["kafka-1 9092"]),
            ("a:1,b,c:3", ["a 1", "b 9092", "c 3"]),
            (" a:1 , b ,\tc:3 ", ["a 1", "b 9092", "c 3"]),
            (",a,, ,b:2,", ["a 9092", "b 2"]), ("", []), (" , ", []),
            ("PLAINTEXT://a:9093", ["a 9093"]), ("plaintext://a", ["a 9092"]),
            ("PLAINTEXT://a:9093/path:1", ["a 9093"]), ("PLAINTEXT://a:1,b:2", ["a 1", "b 2"]),
            ("127.0.0.1", ["127.0.0.1 9092"]), ("127.0.0.1:9094", ["127.0.0.1 9094"]),
            ("[::1]:9093", ["::1 9093"]), ("[::1]", ["::1 9092"]), ("::1", ["::1 9092"]),
            ("fe80::1:2", ["fe80::1:2 9092"]), ("PLAINTEXT://[2001:db8::1]:1", ["2001:db8::1 1"]),
            (":9093", ["localhost 9093"]), ("PLAINTEXT://", ["localhost 9092"]),
        ] as [(String, [String])]
    )
    func `is read as librdkafka reads it`(text: String, servers: [String]) {
        #expect(BootstrapServer.list(text).map { "\($0.host) \($0.port)" } == servers)
    }
}
