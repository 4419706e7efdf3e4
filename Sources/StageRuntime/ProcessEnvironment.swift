internal import Glibc

/// The environment the process was started with.
///
/// Read from the kernel: `environ` is shared mutable state, and Foundation costs a small worker more
/// memory than all its settings.
package enum ProcessEnvironment {
    /// - Returns: every `NAME=value`; of a name that stands twice, the first.
    package static func read() -> [String: String] {
        let descriptor = unsafe open("/proc/self/environ", O_RDONLY | O_CLOEXEC)
        precondition(descriptor >= 0, "the kernel shows a process its environment")
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            guard count > 0 else {
                break
            }
            bytes.append(contentsOf: chunk[..<count])
        }
        var environment: [String: String] = [:]
        for entry in bytes.split(separator: 0) {
            let parts = entry.split(
                separator: UInt8(ascii: "="),
                maxSplits: 1,
                omittingEmptySubsequences: false
            )
            guard parts.count == 2 else {
                continue
            }
            let name = String(decoding: parts[0], as: UTF8.self)
            if environment[name] == nil {
                environment[name] = String(decoding: parts[1], as: UTF8.self)
            }
        }
        return environment
    }
}
