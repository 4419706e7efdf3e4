internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// What is known of the lanes of `report`: what was ordered, by Kafka, and how they stand, by what
/// the workers say on their admin ports.
struct LaneWorld {
    let configuration: Configuration
    private(set) var orders = LaneOrders()
    /// Why a part is not known.
    private(set) var troubles: [String] = []
    let now: Timestamp
    private var snapshot = TopSnapshot()
    var observed: [TopSnapshot.Lane] { snapshot.lanes }

    /// Asks both.
    init(_ invocation: Invocation, now: Timestamp) throws(CommandFailure) {
        self.now = now
        let ports = try AdminPorts(invocation.values("--admin"))
        configuration = try KafkaQuestion.configuration()
        snapshot.at = now.milliseconds
        snapshot.prefix = configuration.topicPrefix
        snapshot.clusterID = try readOrders()
        ports.ask(&snapshot)
        troubles += snapshot.troubles
    }

    /// Notes where the lanes are those of some instances of `report`.
    ///
    /// A hint, which no order for a lane waits for.
    mutating func countReports() throws(CommandFailure) {
        let prefix = configuration.topicPrefix
        guard let clusterID = snapshot.clusterID else {
            return
        }
        let readers = try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            try StageReaders.ask(.report, prefix: prefix, clusterID: clusterID, admin)
        }
        troubles += [snapshot.lanesAreOfSome(of: readers?.memberCount)].compactMap { $0 }
    }

    /// - Returns: the cluster's id.
    private mutating func readOrders() throws(CommandFailure) -> String {
        let name = Topic.laneOrders.name(prefix: configuration.topicPrefix)
        let (clusterID, isThere) = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> (String, Bool) in
            (try admin.clusterID(), try admin.partitionCount(of: name) != nil)
        }
        guard isThere else {
            throw CommandFailure(
                .failed,
                code: "lanes.no_topic",
                "Kafka shows no topic \(name): make it with tollway topics apply --yes"
            )
        }
        let unreadableCount: Int
        (orders, unreadableCount) = try orders(isExact: false)
        if unreadableCount > 0 {
            troubles.append(CountText.of(unreadableCount, "record") + " of \(name) cannot be read")
        }
        return clusterID
    }

    /// The orders of now: asking the admin ports may have taken half a minute.
    ///
    /// To be called once the name of all orders for lanes is taken: it reads to the high watermark,
    /// so that no order of an earlier owner is left out.
    func ordersNow() throws(CommandFailure) -> LaneOrders {
        try orders(isExact: true).orders
    }

    private func orders(
        isExact: Bool
    ) throws(CommandFailure) -> (orders: LaneOrders, unreadableCount: Int) {
        let scan = TopicScan(
            configuration: configuration,
            topics: [Topic.laneOrders.name(prefix: configuration.topicPrefix)],
            isToHighWatermark: isExact
        )
        var orders = LaneOrders()
        var unreadableCount = 0
        try scan.run { batch in
            for record in batch.records where !Self.take(record, batch, &orders) {
                unreadableCount += 1
            }
            return true
        }
        return (orders, unreadableCount)
    }

    /// - Returns: whether it could be read.
    private static func take(
        _ record: RecordBatch.Record,
        _ batch: RecordBatch,
        _ orders: inout LaneOrders
    ) -> Bool {
        guard !record.value.isAbsent else {
            let key = record.key.isAbsent ? 0..<0 : record.key.indices
            _ = orders.forget(key: String(decoding: batch.arena[key], as: UTF8.self))
            return true
        }
        do throws(WireFault) {
            let value = batch.arena.span.extracting(record.value.indices)
            _ = orders.take(try LaneOrder(reading: value))
            return true
        } catch {
            // The caller says how many, as report does.
            return false
        }
    }

    // MARK: Which lane is meant

    /// The lane of `APP ENVIRONMENT`.
    ///
    /// - Throws: exit 2 where that is none, 3 where nobody knows the app.
    func lane(_ operands: [String]) throws(CommandFailure) -> Lane {
        guard operands.count == 2 else {
            throw .usage("missing_operand", "say which lane: APP and production or sandbox")
        }
        let environment = try AppleEnvironment.read(operands[1], of: "ENVIRONMENT")
        return Lane(appAppleID: try app(operands[0]), environment: environment)
    }

    private func app(_ text: String) throws(CommandFailure) -> Int64 {
        let file = try AppName.file(configuration)
        let name = try AppName.read(text, of: "APP")
        guard case .number(let number) = name else {
            guard file == nil || file?.apps.contains(where: name.names) == true else {
                throw unknown(text, file)
            }
            return try name.number(configuration)
        }
        let isKnown =
            file?.app(appAppleID: number) != nil || observed.contains { $0.app == number }
            || orders.byLane.keys.contains { $0.appAppleID == number }
        guard isKnown else {
            throw unknown(text, file)
        }
        return number
    }

    private func unknown(_ app: String, _ file: AppsFile?) -> CommandFailure {
        let setting = Setting.appsFile.fullName
        return CommandFailure(
            .nothingMatched,
            code: "lanes.unknown_app",
            file == nil
                ? "no worker that was asked tells of app \(app): name each report with --admin, or"
                    + " set \(setting)"
                : "app \(app) is not in \(setting), and no worker that was asked tells of it"
        )
    }
}
