internal import Glibc
internal import Synchronization

/// What a worker says: one line an event, on standard error.
///
/// A message is a fixed sentence, so that lines can be counted by it; everything that varies is a
/// field. *Warning*: nothing was lost. *Error*: a person must act. Any thread may call it.
package final class Log: Sendable {
    package enum Format: Sendable {
        /// One JSON object a line, for collectors.
        case json
        /// For a person at a terminal.
        case text

        /// Text where standard error is a terminal.
        package static func automatic() -> Format { isatty(STDERR_FILENO) == 1 ? .text : .json }
    }

    package enum Level: String, Sendable {
        case info, warning, error
    }

    package typealias Fields = (StaticString, LogValue)

    /// How long ``limited(_:_:_:)`` keeps a message back after it was written.
    package static let repeatIntervalMilliseconds: Int64 = 60_000

    private struct Repeats {
        var writtenAt: Int64
        var withheldCount: Int64
    }

    private let worker: String
    private let format: Format
    private let now: @Sendable () -> Int64
    private let write: @Sendable (String) -> Void
    private let repeats = Mutex<[String: Repeats]>([:])

    /// - Parameters:
    ///   - worker: who logs, such as `decode`.
    ///   - format: one of the two.
    ///   - now: UNIX milliseconds.
    ///   - write: takes one whole line, its line end included.
    package init(
        worker: String,
        format: Format = .automatic(),
        now: @escaping @Sendable () -> Int64 = { WallClock.nowMilliseconds() },
        write: @escaping @Sendable (String) -> Void = Log.writeToStandardError
    ) {
        self.worker = worker
        self.format = format
        self.now = now
        self.write = write
    }

    package func info(_ message: StaticString, _ fields: Fields...) {
        put(.info, "\(message)", fields, repeated: 0)
    }

    package func warning(_ message: StaticString, _ fields: Fields...) {
        put(.warning, "\(message)", fields, repeated: 0)
    }

    package func error(_ message: StaticString, _ fields: Fields...) {
        put(.error, "\(message)", fields, repeated: 0)
    }

    /// For what may happen a thousand times a second: written at once, then at most once a minute
    /// with the number of times it was kept back in the field `repeated`.
    package func limited(_ level: Level, _ message: StaticString, _ fields: Fields...) {
        let time = now()
        let message = "\(message)"
        let withheldCount = repeats.withLock { repeats -> Int64? in
            // Messages are fixed strings of the program, so the table is as small as their number.
            guard let last = repeats[message] else {
                repeats[message] = Repeats(writtenAt: time, withheldCount: 0)
                return 0
            }
            let elapsed = time - last.writtenAt
            // A wall clock set back must not silence a message for longer than its interval.
            guard elapsed < 0 || elapsed >= Self.repeatIntervalMilliseconds else {
                repeats[message]?.withheldCount += 1
                return nil
            }
            repeats[message] = Repeats(writtenAt: time, withheldCount: 0)
            return last.withheldCount
        }
        guard let withheldCount else {
            return
        }
        put(level, message, fields, repeated: withheldCount)
    }

    private func put(_ level: Level, _ message: String, _ fields: [Fields], repeated: Int64) {
        var pairs = fields.map { ("\($0.0)", $0.1) }
        if repeated > 0 {
            pairs.append(("repeated", .integer(repeated)))
        }
        let time = WallClock.rfc3339(milliseconds: now())
        switch format {
        case .json: write(jsonLine(time, level, message, pairs))
        case .text: write(textLine(time, level, message, pairs))
        }
    }

    private func jsonLine(
        _ time: String,
        _ level: Level,
        _ message: String,
        _ pairs: [(String, LogValue)]
    ) -> String {
        var line = "{\"time\":\"\(time)\",\"level\":\"\(level.rawValue)\",\"worker\":"
        line += JSONText.quoted(worker)
        line += ",\"message\":"
        line += JSONText.quoted(message)
        for (name, value) in pairs {
            line += ","
            line += JSONText.quoted(name)
            line += ":"
            line += JSONText.value(value)
        }
        return line + "}\n"
    }

    private func textLine(
        _ time: String,
        _ level: Level,
        _ message: String,
        _ pairs: [(String, LogValue)]
    ) -> String {
        var line = "\(time.dropFirst(11).dropLast()) "
        line += level == .info ? "" : "\(level.rawValue): "
        line += "\(worker): \(message)"
        for (name, value) in pairs {
            line += " \(name)=\(JSONText.value(value))"
        }
        return line + "\n"
    }

    /// One `write` a line, so that lines of several processes on one descriptor stay whole.
    package static let writeToStandardError: @Sendable (String) -> Void = { line in
        var bytes = Array(line.utf8)[...]
        while !bytes.isEmpty {
            let written = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count)
            }
            if written > 0 {
                bytes = bytes.dropFirst(written)
            } else if errno != EINTR {
                // Nobody reads standard error any more, and there is no other place to say so.
                return
            }
        }
    }
}
