internal import Glibc
internal import HTTPClient
internal import StageRuntime

/// One request after the other to the workers' admin ports, and every wait of a bench: a signal ends it.
final class BenchHTTP {
    private let client: HTTPClient
    private let signals = ProcessSignals()

    init() throws {
        client = try HTTPClient(
            limits: HTTPClient.Limits(
                concurrency: 4,
                responseByteCountMax: 64 << 20,
                totalTimeoutMilliseconds: 60_000
            ),
            userAgent: "tollway-bench"
        )
    }

    /// - Returns: the answer; nil where nobody answers.
    /// - Throws: ``BenchFailure/interrupted`` on the first signal.
    func get(_ url: String) throws -> (status: Int, body: [UInt8])? {
        _ = client.submit(
            HTTPClientRequest(method: "GET", url: url, headers: [], body: [], tag: 0)
        )
        while true {
            client.run()
            if let response = client.takeResponses().first {
                switch response.outcome {
                case .answered(let answer): return (answer.status, answer.body)
                case .failed: return nil
                }
            }
            try pause(milliseconds: 1_000)
        }
    }

    /// The sum of a counter of the Prometheus text, over all its labels or those that are asked for;
    /// zero where nobody answers.
    func sum(
        _ name: String,
        at url: String,
        where isCounted: (_ line: Substring) -> Bool = { _ in true }
    ) throws -> Int {
        let text = String(decoding: try get(url)?.body ?? [], as: UTF8.self)
        return text.split(separator: "\n").reduce(0) { sum, line in
            guard line.hasPrefix(name + "{") || line.hasPrefix(name + " "), isCounted(line),
                let value = line.split(separator: " ").last.flatMap({ Double($0) })
            else {
                return sum
            }
            return sum + Int(value)
        }
    }

    /// Waits for an answer, the time, or a signal.
    func pause(milliseconds: Int) throws {
        var entries = [
            pollfd(fd: signals.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0),
        ]
        _ = unsafe poll(&entries, 2, Int32(milliseconds))
        if entries[0].revents != 0 {
            throw BenchFailure.interrupted
        }
        if entries[1].revents != 0 {
            // A worker may close a connection that is not used, and then each wait would end at once.
            client.run()
        }
    }
}
