internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Says of every record of `tokens.received` what token it is, or why it is none.
final class DecodeStage: ReloadingStage {
    /// The places of its targets in `Worker.decode.targets`.
    static let decodedTopic = 0
    static let distinctTopic = 1

    private var decoder = ReceivedDecoder()
    private var apps: ReceivedDecoder.Apps
    private let reloadApps: () throws(ConfigurationFault) -> AppsFile?

    /// `reloadApps` gives the apps file as it is now; nil keeps the apps known so far.
    init(
        apps: AppsFile,
        reloadApps: @escaping () throws(ConfigurationFault) -> AppsFile? = { nil }
    ) {
        self.apps = ReceivedDecoder.Apps(apps)
        self.reloadApps = reloadApps
    }

    func reload() -> ConfigurationFault? {
        do throws(ConfigurationFault) {
            if let file = try reloadApps() {
                apps = ReceivedDecoder.Apps(file)
            }
            return nil
        } catch {
            return error
        }
    }

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        Self.judge(batch, by: &decoder, apps, into: &plan)
    }

    /// The decoder is lent for the whole batch: an access to it is checked once.
    private static func judge(
        _ batch: RecordBatch,
        by decoder: inout ReceivedDecoder,
        _ apps: ReceivedDecoder.Apps,
        into plan: inout BatchPlan
    ) {
        let arena = batch.arena.span
        for record in batch.records {
            guard !record.value.isAbsent else {
                let fault = DecodeFault.badEnvelope(reason: "it has no value")
                plan.conclude(.deadLetter(fault.fault), app: TokenTally.unknownApp)
                continue
            }
            let recordTime =
                record.timestampMilliseconds < 0
                ? plan.now : Timestamp(milliseconds: record.timestampMilliseconds)
            do throws(DecodeFault) {
                let decoded = try decoder.decode(
                    arena.extracting(record.value.indices),
                    recordTime: recordTime,
                    apps: apps,
                    into: &plan.outputs.arena
                )
                plan.outputs.outputs.append(output(decoded, topic: decodedTopic))
                plan.conclude(.forward(outputCount: 1), app: decoder.appAppleID)
            } catch {
                writeDeadLetter(error, by: &decoder, apps, into: &plan)
            }
        }
    }

    /// The `seen` record of a token whose `decoded` record Kafka does not take.
    func outputsBesideDeadLetter(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> Int {
        guard !record.value.isAbsent else {
            return 0
        }
        do throws(DecodeFault) {
            // For no app at all, so that it ends as a fault and is written nowhere.
            _ = try decoder.decode(
                batch.arena.span.extracting(record.value.indices),
                recordTime: plan.now,
                apps: ReceivedDecoder.Apps([]),
                into: &plan.outputs.arena
            )
            return 0
        } catch {
            guard let seen = decoder.writeSeen(to: &plan.outputs.arena) else {
                return 0
            }
            plan.outputs.outputs.append(Self.output(seen.written, topic: Self.distinctTopic))
            return 1
        }
    }

    /// A dead letter, and beside it a `seen` record where the token's id could be read: a token among
    /// our own dead letters must not be reported as one that nobody knows.
    private static func writeDeadLetter(
        _ fault: DecodeFault,
        by decoder: inout ReceivedDecoder,
        _ apps: ReceivedDecoder.Apps,
        into plan: inout BatchPlan
    ) {
        let app = decoder.appOfRefused(among: apps) ?? TokenTally.unknownApp
        guard let seen = decoder.writeSeen(to: &plan.outputs.arena) else {
            plan.conclude(.deadLetter(fault.fault), app: app)
            return
        }
        plan.outputs.outputs.append(output(seen.written, topic: distinctTopic))
        plan.conclude(
            .deadLetter(fault.fault(externalPurchaseID: seen.id), outputCount: 1),
            app: app
        )
    }

    private static func output(
        _ written: ReceivedDecoder.Written,
        topic: Int
    ) -> OutputBatch.Output {
        OutputBatch.Output(
            topic: topic,
            key: ByteRange(start: written.key.lowerBound, count: written.key.count),
            value: ByteRange(start: written.value.lowerBound, count: written.value.count)
        )
    }
}

extension ReceivedDecoder.Apps {
    init(_ file: AppsFile) {
        self.init(file.apps.map { (appAppleID: $0.appAppleID, bundleID: $0.bundleID) })
    }
}
