internal import Foundation

/// The command line of a bench.
struct BenchOptions: Equatable {
    enum Measure: String, CaseIterable {
        case ingest, decode, dedupe, notifications, report, purchases
        case reportWaiting = "report-waiting"
        case largeCustomers = "large-customers"
        case chain
    }

    enum Format: String {
        case table, json
    }

    /// All but the one that takes minutes by itself.
    var measures = Measure.allCases.filter { $0 != .reportWaiting }
    var recordCount = 300_000
    /// Nil: a million, or all steps of a scale.
    var keyCountAsked: Int?
    var keyCount: Int { keyCountAsked ?? (isScale ? BenchScale.storedCountMax : 1_000_000) }
    /// Sales in the book a customer, about: those of `purchases`.
    var salesPerCustomer = 10
    var runCount = 3
    var connectionCount = 64
    var seed: UInt64 = 1
    /// Another build's programs; nil: none.
    var otherPrograms: String?
    /// Measures ``BenchScale`` instead.
    var isScale = false
    var keepsFolder = false
    var format = Format.table

    static let help = """
        Usage: tollway-bench [OPTIONS]
               tollway-bench PART NAME=VALUE...
               tollway-bench fill NAME=N...   (what the operator's command is measured against)

        Measures the workers on a cluster, each beside the least that the same libraries could do.

        Fills topics of its own with tokens as apps mix them, runs the real workers on them as
        processes, and in turn with each what stands beside it over the same client libraries: for
        decode, dedupe, notifications and purchases a loop of poll, produce, commit that waits for
        its commits, plain (it writes its input) or with as many bytes out as the worker; for
        ingest a server that writes each line to Kafka and answers after the receipt. A sale of
        purchases is done when it is in the ledger; the bench itself answers for report, at once.
        For report, a report a record, a bare server stands for Apple and accepts all at once;
        beside it libcurl alone sends as many and signs each. A ratio is the median over pairs of
        runs; a record's processor time is that of all threads of the program. What is sent is
        counted again at the end: one record missing or doubled is exit 1. A missed goal is
        printed, and is no failure.

        Needs a real Kafka: with KAFKA_HOME (and Java) a one-node Kafka of its own; with
        TOLLWAY_KAFKA_BOOTSTRAP_SERVERS that cluster, under a topic prefix of its own. The workers'
        programs lie beside this one. The parts (copy, server, load, idle, answer, apple, reports) are the
        programs that it starts of itself.

          --scale           instead: what a token costs decode and dedupe with 10,000, a million and
                            ten million stored and with 1, 3 and 6 instances, in processor, state,
                            Kafka and time to restore; --keys N leaves out the steps above N
          --only MEASURES   of ingest, decode, dedupe, notifications, report, purchases,
                            report-waiting, large-customers, chain; comma-separated
          --records N       of each timed run; decode and batches four times, single tokens and
                            reports a tenth, notifications a thirtieth (300000)
          --keys N          tokens in dedupe's state, sales in purchases' book, or reports due at
                            100 a second for report-waiting (0: as they come), before it is
                            timed (1000000)
          --per-customer N  sales of a customer in purchases' book, about (10); large-customers has
                            10,000. Runs of purchases below 60,000 measure its first seconds
          --runs N          of each program, by turns (3)
          --connections N   to the door (64)
          --seed N          of the tokens that are made up (1)
          --against FOLDER  another build's programs, measured beside these
          --keep            leave the folder with logs and state where it is
          -o FORMAT         table or json (table)

        """

    init() {}

    init(_ arguments: [String]) throws(BenchFailure) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--keep":
                keepsFolder = true
                continue
            case "--scale":
                isScale = true
                continue
            default: break
            }
            guard let value = rest.popFirst() else {
                throw .usage(
                    "missing_value",
                    "\(argument) takes a value, or is no option: see --help"
                )
            }
            switch argument {
            case "--only": measures = try Self.measures(value)
            case "--records": recordCount = try Self.integer(argument, value, 100...10_000_000)
            case "--keys": keyCountAsked = try Self.integer(argument, value, 0...50_000_000)
            case "--per-customer":
                salesPerCustomer = try Self.integer(argument, value, 1...1_000_000)
            case "--runs": runCount = try Self.integer(argument, value, 1...99)
            case "--connections": connectionCount = try Self.integer(argument, value, 1...1_000)
            case "--seed": seed = UInt64(try Self.integer(argument, value, 0...65_535))
            case "--against": otherPrograms = value
            case "-o":
                guard let named = Format(rawValue: value) else {
                    throw .usage("bad_value", "-o is \"\(value)\": it must be table or json")
                }
                format = named
            default: throw .usage("unknown_option", "\(argument) is no option: see --help")
            }
        }
        guard !isScale || keyCount >= BenchScale.storedCountMin else {
            throw .usage(
                "bad_value",
                "--keys is \(keyCount): the first step of --scale has \(BenchScale.storedCountMin)"
            )
        }
    }

    private static func integer(
        _ name: String,
        _ text: String,
        _ range: ClosedRange<Int>
    ) throws(BenchFailure) -> Int {
        guard let value = Int(text), range.contains(value) else {
            throw .usage(
                "bad_value",
                "\(name) is \"\(text)\": it must be \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return value
    }

    private static func measures(_ list: String) throws(BenchFailure) -> [Measure] {
        var named: [Measure] = []
        for name in list.split(separator: ",", omittingEmptySubsequences: false) {
            guard let measure = Measure(rawValue: String(name)) else {
                throw .usage(
                    "bad_value",
                    "--only has \"\(name)\": it must be of "
                        + Measure.allCases.map(\.rawValue).joined(separator: ", ")
                )
            }
            named.append(measure)
        }
        return Measure.allCases.filter(named.contains)
    }
}
