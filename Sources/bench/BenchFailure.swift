/// Why a bench ends before its time, in a sentence.
struct BenchFailure: Error, Equatable {
    /// As the operator's command has them.
    enum Exit: Int32 {
        case failed = 1
        case usage = 2
        case noKafka = 6
        case interrupted = 130
    }

    var exit: Exit
    /// Fixed, such as `bench.count`.
    var code: String
    var message: String

    init(_ exit: Exit = .failed, code: String, _ message: String) {
        self.exit = exit
        self.code = code
        self.message = message
    }

    static func usage(_ code: String, _ message: String) -> BenchFailure {
        BenchFailure(.usage, code: "usage.\(code)", message)
    }

    static let interrupted = BenchFailure(
        .interrupted,
        code: "bench.interrupted",
        "interrupted; everything is cleaned up"
    )
}
