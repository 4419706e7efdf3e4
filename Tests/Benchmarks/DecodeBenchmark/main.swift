// Decodes the same tokens with our reader and with one on simdjson, alternately in one process.
// The other reader is a shared library that Tests/Benchmarks/decode.sh builds.

import CText
import Glibc
import TokenWire

/// `simdjson_read` of the shared library: arena, bounds, count, On-Demand or DOM, level of base64.
typealias Reader =
    @convention(c) (
        UnsafePointer<UInt8>?, UnsafePointer<Int>?, Int, Int32, Int32
    ) -> UInt64

let tokens = BenchmarkTokens(seed: 1, count: 1_024)

if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "records",
    let count = Int(CommandLine.arguments[2]), count > 0
{
    let benchmark = RecordBenchmark(tokens)
    let start = now()
    let byteCount = benchmark.run(recordCount: count)
    print("\(fixed(Double(now() - start) / Double(count))) ns a record, \(byteCount) bytes written")
    exit(0)
}

guard CommandLine.arguments.count == 2,
    let library = unsafe dlopen(CommandLine.arguments[1], RTLD_NOW)
else {
    print("usage: decode-benchmark LIBRARY (run Tests/Benchmarks/decode.sh) | records COUNT")
    exit(2)
}

guard let symbol = unsafe dlsym(library, "simdjson_read") else {
    fatalError("the library has no simdjson_read")
}
let simdjsonRead = unsafe unsafeBitCast(symbol, to: Reader.self)

let best = ctext_level_best()

func ours(_ tokens: BenchmarkTokens) -> UInt64 {
    var reader = TokenReader()
    var sum: UInt64 = 0
    let arena = tokens.arena.span
    for index in 0..<tokens.bounds.count - 1 {
        let range = tokens.bounds[index]..<tokens.bounds[index + 1]
        do {
            try reader.read(arena.extracting(range))
            sum &+= reader.checksum
        } catch {
            fatalError("a token of the benchmark was refused: \(error)")
        }
    }
    return sum
}

func theirs(onDemand: Int32, level: Int32) -> UInt64 {
    unsafe simdjsonRead(tokens.arena, tokens.bounds, tokens.bounds.count - 1, onDemand, level)
}

let contestants: [(name: String, run: () -> UInt64)] = [
    ("TokenReader", { ours(tokens) }),
    ("simdjson DOM, scalar base64", { theirs(onDemand: 0, level: 0) }),
    ("simdjson DOM, our base64", { theirs(onDemand: 0, level: best) }),
    ("simdjson On-Demand, our base64", { theirs(onDemand: 1, level: best) }),
]

/// Nanoseconds of the monotonic clock.
func now() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

var rounds = Array(repeating: [Double](), count: contestants.count)
var sums = Set<UInt64>()
for _ in 0..<200 {
    for (index, contestant) in contestants.enumerated() {
        let start = now()
        for _ in 0..<10 {
            sums.insert(contestant.run())
        }
        rounds[index].append(Double(now() - start) / Double(10 * (tokens.bounds.count - 1)))
    }
}
guard sums.count == 1 else {
    fatalError("the readers disagree on what the tokens say: \(contestants.map { $0.run() })")
}

func fixed(_ value: Double) -> String {
    let hundredths = Int((value * 100).rounded())
    return "\(hundredths / 100).\(hundredths % 100 < 10 ? "0" : "")\(hundredths % 100)"
}

print("\(tokens.bounds.count - 1) mixed tokens, median (fastest) of 200 rounds in turn, ns each")
let medians = rounds.map { $0.sorted()[$0.count / 2] }
for (index, contestant) in contestants.enumerated() {
    let name = contestant.name + String(repeating: " ", count: 32 - contestant.name.utf8.count)
    print(
        name,
        fixed(medians[index]),
        "(\(fixed(rounds[index].min() ?? 0)))",
        index == 0 ? "" : "\(fixed(medians[index] / medians[0])) times ours"
    )
}
