import CFuzz

/// `tollway-fuzz --target=NAME`, then libFuzzer's arguments; it ignores those that begin with `--`.
@main
enum Fuzzer {
    /// From the arguments, for C's function below can be given nothing else.
    private static let target: FuzzTarget = {
        let prefix = "--target="
        let name = CommandLine.arguments.first { $0.hasPrefix(prefix) }?.dropFirst(prefix.count)
        guard let target = name.flatMap({ FuzzTarget(rawValue: String($0)) }) else {
            let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: "|")
            fatalError("give --target=\(names)")
        }
        return target
    }()

    static func main() {
        var count = CommandLine.argc
        var arguments = unsafe Optional(CommandLine.unsafeArgv)
        _ = target
        _ = unsafe LLVMFuzzerRunDriver(&count, &arguments) { bytes, count in
            let input = unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
            if let rule = Fuzzer.target.rule(brokenBy: input) {
                // libFuzzer keeps the input of a program that ends like this.
                fatalError("\(Fuzzer.target.rawValue): \(rule)")
            }
            return 0
        }
    }
}
