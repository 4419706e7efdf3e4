internal import Glibc
package import Kafka
internal import Synchronization
package import Telemetry
package import TokenDomain

/// The check of a worker's topics on a thread of its own, for a worker that must not wait for it: the
/// door opens at once, and answers 503 while Kafka is away.
package final class TopicWatch: Sendable {
    private let verdict = Mutex<LogFault?>(nil)
    private let limits = Mutex<[String: Int]>([:])
    private let isStopped = Atomic(false)
    private let isDone = Atomic(false)

    package init() {}

    /// What is wrong with the topics, or with the settings that lead to them; nil while nothing is.
    package var fault: LogFault? { verdict.withLock { $0 } }

    /// `max.message.bytes` of the topics that were found, by full name, where they are known.
    package var recordByteCountMax: [String: Int] { limits.withLock { $0 } }

    /// Whether the topics were found in order.
    package var isVerified: Bool { isDone.load(ordering: .acquiring) }

    /// Looks until the broker has answered; the thread ends by itself.
    package func start(_ worker: Worker, _ configuration: Configuration, _ log: Log) {
        let look = Look(
            watch: self,
            check: TopicCheck(worker: worker, configuration: configuration, log: log)
        )
        DetachedThread.start { look.run() }
    }

    /// Does not join the thread: it asks nothing more, and the process may end beside it.
    package func stop() {
        isStopped.store(true, ordering: .relaxed)
    }

    /// `@unchecked`: handed over once, to its thread, and from then on used by that alone.
    private final class Look: @unchecked Sendable {
        private let watch: TopicWatch
        private let check: TopicCheck

        init(watch: TopicWatch, check: TopicCheck) {
            self.watch = watch
            self.check = check
        }

        func run() {
            do {
                let cluster = try check.waitForTopics { [watch] milliseconds in
                    _ = poll(nil, 0, Int32(clamping: milliseconds))
                    return watch.isStopped.load(ordering: .relaxed)
                }
                watch.limits.withLock { $0 = cluster?.recordByteCountMax ?? [:] }
                watch.isDone.store(cluster != nil, ordering: .releasing)
            } catch let fault as LogFault {
                watch.verdict.withLock { $0 = fault }
            } catch {
                preconditionFailure("the check of topics throws faults of the log: \(error)")
            }
        }
    }
}
