internal import Foundation
internal import Glibc
internal import HTTPClient
internal import Kafka
internal import LocalKafka

/// One request after the other, for a command that has nothing else to do meanwhile.
final class DemoHTTP {
    /// Elements of a listing asked for at once: a page stays below the largest answer.
    static let pageSize = 50_000

    private let client: HTTPClient
    private let stop: StopSignal
    /// Called at least every `turnMilliseconds` of a wait: what else goes on beside the requests.
    var turn: (() throws -> Void)?
    static let turnMilliseconds = 20

    init(
        stop: StopSignal,
        totalTimeoutMilliseconds: Int = 60_000
    ) throws(CommandFailure) {
        self.stop = stop
        do throws(HTTPClientFault) {
            client = try HTTPClient(
                limits: HTTPClient.Limits(
                    concurrency: 4,
                    responseByteCountMax: 64 << 20,
                    totalTimeoutMilliseconds: totalTimeoutMilliseconds
                ),
                userAgent: "tollway-demo"
            )
        } catch {
            throw CommandFailure(.failed, code: "demo.http", "no HTTP client: \(error)")
        }
    }

    /// Whether the first signal came, for what waits without this client.
    var isInterrupted: Bool { stop.isThere }

    /// - Returns: the answer; nil where nobody answers.
    /// - Throws: ``DemoInterrupted`` on the first signal.
    func call(
        _ method: String,
        _ url: String,
        contentType: String = "application/json",
        headers: [(String, String)] = [],
        body: [UInt8] = []
    ) throws -> (status: Int, body: [UInt8])? {
        _ = client.submit(
            HTTPClientRequest(
                method: method,
                url: url,
                headers: body.isEmpty ? headers : headers + [("Content-Type", contentType)],
                body: body,
                tag: 0
            )
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

    func json(_ url: String) throws -> Any? {
        guard let (status, body) = try call("GET", url), status == 200 else {
            return nil
        }
        return try JSONSerialization.jsonObject(with: Data(body))
    }

    /// Hands over every element of one of the simulator's listings, page by page.
    ///
    /// - Parameters:
    ///   - url: the listing's, without parameters.
    ///   - name: the member that holds the elements of a page.
    ///   - visit: is given each element.
    /// - Throws: a ``CommandFailure`` where a page does not come.
    func list(
        _ url: String,
        _ name: String,
        visit: ([String: Any]) throws -> Void
    ) throws {
        var offset: Int? = 0
        while let start = offset {
            let page = try json("\(url)?limit=\(Self.pageSize)&offset=\(start)") as? [String: Any]
            guard let page, let elements = page[name] as? [[String: Any]] else {
                throw CommandFailure(.failed, code: "demo.sim", "the simulator lists no \(name)")
            }
            for element in elements {
                try visit(element)
            }
            offset = page["next"] as? Int
        }
    }

    /// Waits for an answer, the time, or a signal; with a `turn` to take, only so long.
    func pause(milliseconds: Int) throws {
        try turn?()
        let longest = turn == nil ? milliseconds : min(milliseconds, Self.turnMilliseconds)
        var entries = [
            pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0),
        ]
        _ = unsafe poll(&entries, 2, Int32(longest))
        if entries[0].revents != 0 {
            throw DemoInterrupted()
        }
        if entries[1].revents != 0 {
            // A timer of the client's that fired, or a connection that was closed: left alone, it would
            // end each pause at once.
            client.run()
        }
    }
}

/// Ctrl-C, or SIGTERM: clean up and go.
struct DemoInterrupted: Error {
    /// What a run of `demo` or `up` ends with, whatever it throws: `servers` is the Kafka that was named,
    /// nil where it is one of the run's own.
    static func ending(
        _ command: String,
        kafka servers: String?,
        _ run: () throws -> ExitCode
    ) throws(CommandFailure) -> ExitCode {
        do {
            return try run()
        } catch let failure as CommandFailure {
            throw failure
        } catch is DemoInterrupted {
            Console.say("interrupted; everything is cleaned up")
            return .interrupted
        } catch let fault as LogFault {
            var sentence = "Kafka: \(fault.sentence)"
            if let servers, case .unavailable(let code, let message) = fault {
                sentence = KafkaQuestion.unavailable(servers, code, message)
            }
            throw CommandFailure(.noKafka, code: "\(command).kafka", sentence)
        } catch let fault as LocalCluster.Fault {
            switch fault {
            case .notInstalled(let message):
                throw .usage(
                    "kafka_home",
                    "KAFKA_HOME is set and cannot be used: \(message);"
                        + " unset it for the embedded broker"
                )
            case .failed(let message):
                throw CommandFailure(.noKafka, code: "\(command).kafka", message)
            case .interrupted:
                return .interrupted
            }
        } catch {
            throw CommandFailure(.failed, code: "\(command).failed", "\(error)")
        }
    }
}
