internal import Foundation
internal import Glibc
internal import StageRuntime
internal import Synchronization
internal import Telemetry
internal import TokenDomain

/// `tollway top`: the pipeline at work, on one screen.
enum TopCommand {
    private static let intervalDefault = Milliseconds.seconds(2)
    private static let intervalMin = Milliseconds(500)
    private static let intervalMax = Milliseconds.seconds(60)
    private static let countMax = 1_000_000
    /// How often the screen looks whether there is something new to draw.
    private static let turnMilliseconds: Int32 = 100

    static let verb = Verb(
        words: ["top"],
        summary: "stages, lanes and dead letters on one screen, again and again",
        options: [
            .value("--interval", "TIME", "between two looks, 500ms to 60s; default: 2s"),
            .value(
                "--admin",
                "HOST:PORT",
                "a worker's admin port, for lanes and lag in seconds; default: 9401-9406 here",
                isRepeatable: true
            ),
            .value("--count", "N", "so many snapshots where there is no screen; default: 1"),
        ],
        details: """
            From Kafka alone: what each worker reads, by how many instances (a stage that
            nobody runs is named on top), its rate and its lag, the reports that Apple took in the last
            hour by app, and the dead letters that are open, which is neither replayed nor
            discarded, by code. The admin ports that are named, else those of workers of this
            pipeline that run on this machine with default ports, add lanes with rate, hold and
            next deadline, lag in seconds, and each instance. What Kafka does not tell, as of a
            partition without a leader, is named on top, and not known below. Ctrl-C or q ends and leaves the
            terminal as it was. Without a terminal, or with -o json, one snapshot: two looks,
            for the rates.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let interval = try invocation.duration("--interval", default: intervalDefault)
        guard interval >= intervalMin, interval <= intervalMax else {
            throw .usage("bad_value", "--interval must be from 500ms to 60s")
        }
        let count = try invocation.integer("--count", default: 1, in: 1...countMax)
        let source = try TopSource(
            try KafkaQuestion.configuration(),
            addresses: invocation.values("--admin")
        )
        let stop = StopSignal()
        guard invocation.output == .table, Console.outputIsTerminal else {
            return snapshots(source, stop, invocation.output, interval, count: count)
        }
        return screen(source, stop, interval)
    }

    // MARK: Without a screen

    private static func snapshots(
        _ source: TopSource,
        _ stop: StopSignal,
        _ output: OutputFormat,
        _ interval: Milliseconds,
        count: Int
    ) -> ExitCode {
        defer { source.close() }
        var snapshot = source.look()
        for _ in 0..<count {
            if let exit = stop.wait(milliseconds: Int32(interval.count)) {
                return exit
            }
            snapshot = source.look()
            switch output {
            case .table:
                let screen = TopScreen(snapshot: snapshot, width: nil, height: nil)
                Console.stream(screen.lines.joined(separator: "\n") + "\n")
            case .json, .ndjson:
                Console.stream(snapshot.json + "\n")
            }
        }
        return snapshot.stages.isEmpty ? .noKafka : .ok
    }

    // MARK: With a screen

    /// The newest snapshot, from the thread that looks to the one that draws.
    private final class Feed: Sendable {
        private let newest = Mutex<TopSnapshot?>(nil)

        func put(_ snapshot: TopSnapshot) {
            newest.withLock { $0 = snapshot }
        }

        func take() -> TopSnapshot? {
            newest.withLock { snapshot in
                defer { snapshot = nil }
                return snapshot
            }
        }
    }

    /// A source on its way to the thread that looks.
    ///
    /// `@unchecked`: handed over once, and from then on used by that thread alone.
    private struct Handover: @unchecked Sendable {
        let source: TopSource
    }

    /// Questions to Kafka may take their time; drawing, keys and Ctrl-C must not wait for them.
    private static func screen(
        _ source: TopSource,
        _ stop: StopSignal,
        _ interval: Milliseconds
    ) -> ExitCode {
        let feed = Feed()
        let handover = Handover(source: source)
        let looker = Thread {
            while true {
                feed.put(handover.source.look())
                _ = poll(nil, 0, Int32(interval.count))
            }
        }
        looker.start()
        var terminal = Terminal()
        let exit = draw(feed, &terminal, stop)
        terminal.leave()
        return exit
    }

    private static func draw(
        _ feed: Feed,
        _ terminal: inout Terminal,
        _ stop: StopSignal
    ) -> ExitCode {
        var snapshot: TopSnapshot?
        var drawnSize: Terminal.Size?
        var entries = [
            pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: terminal.keyDescriptor, events: Int16(POLLIN), revents: 0),
        ]
        while true {
            let size = Terminal.size
            let news = feed.take()
            snapshot = news ?? snapshot
            if news != nil || drawnSize != size {
                drawnSize = size
                terminal.draw(lines(snapshot, size))
            }
            _ = unsafe poll(&entries, 2, turnMilliseconds)
            if entries[0].revents != 0, let exit = stop.wait(milliseconds: 0) {
                return exit
            }
            if entries[1].revents != 0 {
                guard let keys = terminal.keys() else {
                    // The terminal is gone, or its input at an end.
                    entries[1].fd = -1
                    continue
                }
                if keys.contains(UInt8(ascii: "q")) || keys.contains(UInt8(ascii: "Q")) {
                    return .ok
                }
            }
        }
    }

    private static func lines(_ snapshot: TopSnapshot?, _ size: Terminal.Size) -> [String] {
        guard let snapshot else {
            return ["tollway top: asking Kafka"]
        }
        return TopScreen(snapshot: snapshot, width: size.width, height: size.height).lines
    }
}
