import Glibc
import TokenDomain
import TokenWire

/// Whole records of `tokens.received` to records of `tokens.decoded`, as the decode stage makes them.
///
/// Run under `valgrind` with two counts, its "total heap usage" says what a record allocates: nothing.
struct RecordBenchmark {
    private var arena: [UInt8] = []
    private var bounds = [0]

    init(_ tokens: BenchmarkTokens) {
        for index in 0..<tokens.bounds.count - 1 {
            let token = tokens.arena[tokens.bounds[index]..<tokens.bounds[index + 1]]
            TokenReceived(
                token: String(decoding: token, as: UTF8.self),
                customer: CustomerID("c1.iDBl1tJ_dR7rjK7zOio7hq2CDWH1C8Y6vtUCNrwvC-4"),
                receivedAt: Timestamp(milliseconds: 1_760_000_000_000),
                source: .app,
                bundleID: nil,
                requestID: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f"
            ).write(to: &arena)
            bounds.append(arena.count)
        }
    }

    /// - Returns: the bytes written.
    func run(recordCount: Int) -> Int {
        var decoder = ReceivedDecoder()
        let apps = ReceivedDecoder.Apps(BenchmarkTokens.apps)
        var out: [UInt8] = []
        out.reserveCapacity(1 << 20)
        var byteCount = 0
        let records = arena.span
        for record in 0..<recordCount {
            let index = record % (bounds.count - 1)
            do {
                let written = try decoder.decode(
                    records.extracting(bounds[index]..<bounds[index + 1]),
                    recordTime: Timestamp(milliseconds: 1_760_000_000_000),
                    apps: apps,
                    into: &out
                )
                byteCount += written.value.count
            } catch {
                fatalError("a record of the benchmark was refused: \(error)")
            }
            if out.count > 1 << 19 {
                out.removeAll(keepingCapacity: true)
            }
        }
        return byteCount
    }
}
