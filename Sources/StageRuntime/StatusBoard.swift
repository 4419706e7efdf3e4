internal import Synchronization
package import Telemetry
package import TokenDomain
internal import TokenWire

/// The newest `/debug/status` of a program: written by its loop, read by the admin port's thread.
///
/// A loop that is stuck leaves its last one, whose `at` says how old it is. Before the first there
/// is only what the probes know.
package final class StatusBoard: Sendable {
    private let text = Mutex<[UInt8]?>(nil)

    package init() {}

    package func publish(_ json: [UInt8]) {
        text.withLock { $0 = json }
    }

    /// Nil before the first was published.
    package var json: [UInt8]? { text.withLock { $0 } }

    /// The status of a worker whose loop does not run yet; `group` is nil of one that has none.
    package static func beginning(
        _ worker: Worker,
        instance: String,
        group: String? = nil,
        health: Health
    ) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("worker", worker.rawValue)
        writer.field("instance", instance)
        writer.field("version", BuildInfo.version)
        writer.field("at", WallClock.nowMilliseconds())
        if let group {
            // By it `tollway top` knows a worker of its pipeline, also while Kafka is away.
            writer.name("kafka")
            writer.beginObject()
            writer.field("group", group)
            writer.endObject()
        }
        HealthText.write(health, &writer)
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }
}
