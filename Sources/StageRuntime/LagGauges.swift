internal import Kafka
internal import Telemetry
internal import TokenDomain

/// Lag as `/metrics` shows it: a series a partition, dropped when the partition leaves.
final class LagGauges {
    private let worker: Worker
    private let families: [(gauge: Gauge, value: (LagWatch.Partition) -> Double)]
    private let usefulReplicas: Gauge.Series
    private let setElsewhere: Gauge.Series
    private var shown: Set<TopicPartition> = []

    init(worker: Worker, metrics: Metrics) {
        self.worker = worker
        families = [
            (
                metrics.gauge(
                    "consumer_lag_records",
                    help: "Records of a partition that are not done yet, its transaction markers"
                        + " among them; 0 when idle.",
                    labels: ["stage", "topic", "partition"]
                ), { Double($0.records) }
            ),
            (
                metrics.gauge(
                    "consumer_lag_seconds",
                    help: "How long the first record that is not done has waited, by the time of"
                        + " the last one that is; 0 when idle.",
                    labels: ["stage", "topic", "partition"]
                ), { $0.seconds }
            ),
            (
                metrics.gauge(
                    "last_stable_offset_lag_records",
                    help: "Records that open transactions hold back from read-committed readers.",
                    labels: ["stage", "topic", "partition"]
                ), { Double(max(0, $0.end - $0.lastStable)) }
            ),
            (
                metrics.gauge(
                    "last_stable_offset_stuck_seconds",
                    help:
                        "How long the last stable offset has stood still with records behind it and"
                        + " none before it left to do; beyond 75 s a transaction hangs. The worker"
                        + " ends with 75 after 120 s.",
                    labels: ["stage", "topic", "partition"]
                ), { $0.stuckSeconds }
            ),
        ]
        usefulReplicas =
            metrics.gauge(
                "useful_replicas",
                help: "How many instances of this worker would still help, as this one sees it: at"
                    + " most its partitions, for report also what Apple's rate keeps busy; 0"
                    + " without partitions. The largest of all instances counts. ingest reads no"
                    + " partitions and has no series: it scales by CPU and by the time to its"
                    + " answer.",
                labels: ["stage"]
            ).series(worker.rawValue)
        setElsewhere =
            metrics.gauge(
                "positions_set_elsewhere",
                help: "Partitions whose position in the group another program than a worker had set"
                    + " when they were last assigned: what lay before it and was not read is"
                    + " passed by.",
                labels: ["stage"]
            ).series(worker.rawValue)
    }

    /// Drops the series of what is not among these.
    func keep(only partitions: Set<TopicPartition>) {
        for partition in shown.subtracting(partitions) {
            for (gauge, _) in families {
                gauge.remove(worker.rawValue, partition.topic, "\(partition.partition)")
            }
        }
        shown.formIntersection(partitions)
        if partitions.isEmpty {
            usefulReplicas.set(0)
        }
    }

    func show(
        _ partitions: [TopicPartition: LagWatch.Partition],
        usefulReplicas count: Int,
        positionsSetElsewhere: Int
    ) {
        keep(only: Set(partitions.keys))
        for (partition, lag) in partitions {
            for (gauge, value) in families {
                gauge.set(value(lag), worker.rawValue, partition.topic, "\(partition.partition)")
            }
        }
        shown = Set(partitions.keys)
        usefulReplicas.set(Double(count))
        setElsewhere.set(Double(positionsSetElsewhere))
    }
}
