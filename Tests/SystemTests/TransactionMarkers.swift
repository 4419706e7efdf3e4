import Glibc
import Kafka

/// Writes the markers that end a transaction, as its coordinator does (`WriteTxnMarkers`).
///
/// Kafka's own tool can only abort, and a transaction that hangs may have been committed: a single
/// broker that was killed between PrepareCommit and the markers was seen to come back, to write
/// CompleteCommit, and none of 25 markers. Whoever committed it was told so.
struct TransactionMarkers: Equatable {
    /// A transaction as the partitions know it.
    struct Open: Hashable {
        var producerID: Int64
        var producerEpoch: Int16
        var coordinatorEpoch: Int32
    }

    private static let apiKey: Int16 = 27
    private static let apiVersion: Int16 = 1
    private static let answerSecondsMax = 10

    var open: Open
    var isCommit: Bool
    /// Partitions by topic.
    var partitions: [String: [Int]]

    /// Asks every node; those that do not lead a partition refuse it.
    ///
    /// - Throws: a node that does not answer. Whether the markers are there, a look at the
    ///   partitions tells.
    func write(bootstrapServers: String) throws {
        for server in bootstrapServers.split(separator: ",") {
            guard let port = server.split(separator: ":").last.flatMap({ UInt16($0) }) else {
                throw StormFault(sentence: "\(server) names no port")
            }
            try Self.exchange(request, port: port)
        }
    }

    /// The request with its size, in the form of Kafka's flexible versions.
    var request: [UInt8] {
        var bytes: [UInt8] = []
        bytes.put(Self.apiKey)
        bytes.put(Self.apiVersion)
        bytes.put(Int32(1))
        bytes.put(Int16(-1))
        bytes.append(0)
        bytes.putCount(1)
        bytes.put(open.producerID)
        bytes.put(open.producerEpoch)
        bytes.append(isCommit ? 1 : 0)
        bytes.putCount(partitions.count)
        for (topic, numbers) in partitions.sorted(by: { $0.key < $1.key }) {
            bytes.putCount(topic.utf8.count)
            bytes += topic.utf8
            bytes.putCount(numbers.count)
            for number in numbers {
                bytes.put(Int32(number))
            }
            bytes.append(0)
        }
        bytes.put(open.coordinatorEpoch)
        bytes += [0, 0]
        var framed: [UInt8] = []
        framed.put(Int32(bytes.count))
        return framed + bytes
    }

    /// Sends a request and waits for an answer, whatever it says.
    private static func exchange(_ request: [UInt8], port: UInt16) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var patience = timeval(tv_sec: answerSecondsMax, tv_usec: 0)
        unsafe setsockopt(
            descriptor,
            SOL_SOCKET,
            SO_RCVTIMEO,
            &patience,
            socklen_t(MemoryLayout<timeval>.size)
        )
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let isConnected = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                unsafe connect(descriptor, raw, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        var answer = [UInt8](repeating: 0, count: 4)
        guard isConnected, unsafe send(descriptor, request, request.count, 0) == request.count,
            unsafe recv(descriptor, &answer, answer.count, Int32(MSG_WAITALL)) == 4
        else {
            throw StormFault(sentence: "the node at port \(port) takes no markers")
        }
    }
}

extension [UInt8] {
    fileprivate mutating func put(_ value: some FixedWidthInteger) {
        for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
            append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    /// A length as flexible versions write it: one more, in groups of seven bits.
    fileprivate mutating func putCount(_ count: Int) {
        var rest = UInt(count + 1)
        while rest > 0x7f {
            append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}

/// What the coordinator has written of the last transaction of a producer, in `__transaction_state`.
enum CoordinatorVerdict {
    static let topic = "__transaction_state"
    private static let statusOffset = 16
    /// PrepareCommit and CompleteCommit, in Kafka's numbers.
    private static let committed: Set<UInt8> = [2, 4]

    /// Whether a value is of this producer; nil where it is not, else whether it was committed.
    ///
    /// Version (2 bytes), producer (8), epoch (2), timeout (4), status (1): the beginning of both
    /// versions there are.
    static func isCommitted(_ value: [UInt8], _ open: TransactionMarkers.Open) -> Bool? {
        guard value.count > statusOffset,
            number(value[2..<10]) == open.producerID,
            number(value[10..<12]) == Int64(open.producerEpoch)
        else {
            return nil
        }
        return committed.contains(value[statusOffset])
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int64 {
        bytes.reduce(0) { $0 << 8 | Int64($1) }
    }

    /// Reads all there is.
    ///
    /// - Returns: whether the last transaction of the producer was committed.
    static func read(_ open: TransactionMarkers.Open, settings: KafkaSettings) throws -> Bool {
        let browser = try LogBrowser(
            settings: settings,
            topics: [topic],
            isolation: .readUncommitted
        )
        defer { browser.close() }
        try browser.start()
        var last: (offset: Int64, isCommitted: Bool) = (-1, false)
        try browser.readToEnd { batch in
            for record in batch.records where !record.value.isAbsent && record.offset > last.offset
            {
                let value = Array(batch.arena[record.value.indices])
                if let isCommitted = isCommitted(value, open) {
                    last = (record.offset, isCommitted)
                }
            }
        }
        return last.isCommitted
    }
}
