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

    /// How long ``limited(_:_:per:_:)`` keeps a message back after it was written.
    package static let repeatIntervalMilliseconds: Int64 = 60_000
    /// How many subjects ``limited(_:_:per:_:)`` tells apart at once; those beyond share one line.
    package static let subjectCountMax = 100

    /// What is written at most once in an interval.
    private struct RepeatKey: Hashable {
        var message: String
        var subject: String?
    }

    private struct Repeats {
        var writtenAt: Int64
        var withheldCount: Int64 = 0
        /// Of the last that was kept back.
        var level = Level.info
        var fields: [Fields] = []

        // A wall clock set back must not silence a message for longer than its interval.
        func isOver(at time: Int64) -> Bool {
            time < writtenAt || time - writtenAt >= Log.repeatIntervalMilliseconds
        }
    }

    private let worker: String
    private let format: Format
    private let now: @Sendable () -> Int64
    private let write: @Sendable (String) -> Void
    private let repeats = Mutex<[RepeatKey: Repeats]>([:])
    /// Before that no minute of a message ends.
    private let nextEnd = Atomic<Int64>(.max)

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
    ///
    /// `subject` is what the message is about where one must not hide another, such as an app, or a
    /// record's trace: each of up to ``subjectCountMax`` has a minute of its own.
    package func limited(
        _ level: Level,
        _ message: StaticString,
        per subject: String? = nil,
        _ fields: Fields...
    ) {
        let time = now()
        let withheldCount = repeats.withLock { repeats -> Int64? in
            // Messages are fixed strings of the program, so without subjects the table is small.
            var key = RepeatKey(message: "\(message)", subject: subject)
            if subject != nil, repeats[key] == nil, repeats.count >= Self.subjectCountMax {
                key.subject = nil
            }
            if let last = repeats[key], !last.isOver(at: time) {
                repeats[key]?.withheldCount += 1
                repeats[key]?.level = level
                repeats[key]?.fields = fields
                return nil
            }
            nextEnd.min(time + Self.repeatIntervalMilliseconds, ordering: .relaxed)
            return repeats.updateValue(Repeats(writtenAt: time), forKey: key)?.withheldCount ?? 0
        }
        guard let withheldCount else {
            return
        }
        put(level, "\(message)", fields, repeated: withheldCount)
    }

    /// Writes what was kept back and did not come again for the rest of its minute: the last line of
    /// each message and subject, with `repeated`.
    ///
    /// A loop calls it now and then.
    package func writeWithheld() {
        let time = now()
        guard time >= nextEnd.load(ordering: .relaxed) else {
            return
        }
        let due = repeats.withLock { repeats in
            let due = repeats.filter { $0.value.isOver(at: time) }
            for (key, last) in due {
                repeats[key] = last.withheldCount > 0 ? Repeats(writtenAt: time) : nil
            }
            let ends = repeats.values.map { $0.writtenAt + Self.repeatIntervalMilliseconds }
            nextEnd.store(ends.min() ?? .max, ordering: .relaxed)
            return due.filter { $0.value.withheldCount > 0 }
        }
        for (key, last) in due.sorted(by: { $0.value.writtenAt < $1.value.writtenAt }) {
            put(last.level, key.message, last.fields, repeated: last.withheldCount)
        }
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
