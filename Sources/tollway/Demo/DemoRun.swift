internal import Foundation
internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// One demo from start to account.
final class DemoRun {
    /// Objects in one NDJSON post, and how often one goes alone instead.
    static let linesPerPost = 100
    private static let singlesEvery = 20
    /// How long the door may stay closed: longer than Kafka and all workers take to be at rest again.
    private static let doorSeconds = 120.0
    private static let registrationsPerPost = 1_000
    /// Nothing moved for so long: what is missing will not come.
    private static let stalledSeconds = 60.0
    /// After the last report was seen, so long nothing more may come: one that Apple has answered with
    /// 500 three times in a row waits some seconds for its next try.
    private static let quietSeconds = 10.0

    let stream: DemoStream
    let workers: DemoWorkers
    let topicPrefix: String
    let http: DemoHTTP
    let settings: KafkaSettings
    private let cluster: DemoCluster
    private let pauseMilliseconds: Int
    /// Which ingest a post goes to; the demo has one.
    var door: () -> String
    private var progress: DemoProgress
    private var doorRefusalCount = 0
    /// Called after each delivery: what is sent among the tokens.
    var delivered: (() throws -> Void)?
    /// Of sales that the door refused: the code, by line.
    var refusedSales: [String: String] = [:]

    /// The pause is between two posts at the door; without settings Kafka is spoken to in plain text.
    init(
        stream: DemoStream,
        workers: DemoWorkers,
        cluster: DemoCluster,
        topicPrefix: String,
        http: DemoHTTP,
        settings: KafkaSettings? = nil,
        pauseMilliseconds: Int = 0
    ) {
        self.stream = stream
        self.workers = workers
        self.cluster = cluster
        self.topicPrefix = topicPrefix
        self.http = http
        self.settings =
            settings
            ?? KafkaSettings(
                bootstrapServers: cluster.bootstrapServers,
                clientID: "\(topicPrefix)demo"
            )
        self.pauseMilliseconds = pauseMilliseconds
        door = { workers.ingestURL }
        progress = DemoProgress(
            isTerminal: Console.errorIsTerminal,
            goals: Self.goals(stream.truth)
        )
        progress.goals.settledSales = settledSalesGoal
    }

    private static func goals(_ truth: DemoTruth) -> DemoCounts {
        let inputs = truth.inputs.filter { !$0.key.isNotice }.values.reduce(0, +)
        let decoded = inputs - (truth.deadLettersByClass[.undecodable] ?? 0)
        // Two of the samples repeat the id of the one before them for the same customer.
        let repeats = (truth.inputs[.repeats] ?? 0) + 2
        return DemoCounts(
            received: inputs,
            decoded: decoded,
            distinct: decoded - repeats,
            reported: truth.reports.count,
            deadLetters: truth.deadLetters.values.reduce(0, +)
        )
    }

    // MARK: Streaming in

    /// Tells Apple's side which tokens it issued.
    func register() throws {
        for start in stride(
            from: 0,
            to: stream.registrations.count,
            by: Self.registrationsPerPost
        ) {
            let end = min(start + Self.registrationsPerPost, stream.registrations.count)
            let tokens = stream.registrations[start..<end].map(\.registration)
            let body = try JSONSerialization.data(withJSONObject: ["register": tokens])
            let answer = try http.call("POST", workers.simulatorURL("/tokens"), body: Array(body))
            guard answer?.status == 200 else {
                throw CommandFailure(.failed, code: "demo.sim", "the simulator takes no tokens")
            }
        }
    }

    func deliver() throws {
        let producer = try KafkaProducer(
            settings: settings,
            targets: [Topic.tokensReceived.name(prefix: topicPrefix)]
        )
        defer { producer.close(deadlineMilliseconds: 2_000) }
        var lines: [String] = []
        for (index, delivery) in stream.deliveries.enumerated() {
            switch delivery {
            case .door(let line):
                if index % Self.singlesEvery == 0 {
                    // The order of the door is the order of the truth: what waits goes first.
                    try post(&lines)
                    lines = [line]
                    try post(&lines)
                } else {
                    lines.append(line)
                }
            case .topic(let value):
                try write(value, producer)
            case .notice(let id):
                try post(&lines)
                try notify(id, forged: nil)
            case .forgedNotice(let id):
                try post(&lines)
                try notify(id, forged: "wrong-root")
            }
            if lines.count == Self.linesPerPost {
                try post(&lines)
            }
            try delivered?()
            try showProgress()
        }
        try post(&lines)
        guard producer.flush(deadlineMilliseconds: 30_000) else {
            throw CommandFailure(.noKafka, code: "demo.kafka", "Kafka does not take the records")
        }
    }

    func post(_ lines: inout [String], to path: String = "/v1/tokens") throws {
        guard !lines.isEmpty else {
            return
        }
        let type = lines.count == 1 ? "application/json" : "application/x-ndjson"
        let body = Array(lines.joined(separator: "\n").utf8)
        lines = []
        let answer = try knock(path, type, body)
        guard answer.status == 202 else {
            let text = String(decoding: answer.body, as: UTF8.self)
            throw CommandFailure(.failed, code: "demo.door", "the door refuses: \(text)")
        }
        try pause()
    }

    /// Posts until the door says yes or no.
    func knock(
        _ path: String,
        _ contentType: String,
        _ body: [UInt8]
    ) throws -> (status: Int, body: [UInt8]) {
        let deadline = Date().addingTimeInterval(Self.doorSeconds)
        while Date() < deadline {
            let answer = try http.call(
                "POST",
                "\(door())\(path)",
                contentType: contentType,
                headers: [("Authorization", "Bearer \(workers.ingestKey)")],
                body: body
            )
            if let answer, answer.status != 503 {
                return answer
            }
            // Part may be stored: what is sent again is a repeat.
            doorRefusalCount += 1
            try workers.refuseEnded()
            try http.pause(milliseconds: 100)
        }
        throw CommandFailure(.tryAgain, code: "demo.door", "the door stays closed")
    }

    private func pause() throws {
        let deadline = Date().addingTimeInterval(Double(pauseMilliseconds) / 1_000)
        while Date() < deadline {
            try http.pause(milliseconds: pauseMilliseconds)
        }
    }

    private func write(_ value: String, _ producer: KafkaProducer) throws {
        var outputs = OutputBatch()
        let range = outputs.place(Array(value.utf8))
        outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: range))
        try producer.produce(outputs, tags: [0])
        guard try producer.takeReceipts().allSatisfy(\.isStored) else {
            throw CommandFailure(.noKafka, code: "demo.kafka", "Kafka does not take a record")
        }
    }

    func notify(_ id: String, forged: String?) throws {
        var body: [String: Any] = [
            "subtype": "UNREPORTED",
            "externalPurchaseId": id,
            "url": "\(door())/v1/notifications",
        ]
        body["forged"] = forged
        let answer = try http.call(
            "POST",
            workers.simulatorURL("/notifications"),
            body: Array(try JSONSerialization.data(withJSONObject: body))
        )
        guard answer?.status == 200 else {
            let text = answer.map { String(decoding: $0.body, as: UTF8.self) } ?? "no answer"
            throw CommandFailure(.failed, code: "demo.sim", "no notice can be sent: \(text)")
        }
    }

    // MARK: Waiting

    private func showProgress() throws {
        guard progress.isDue else {
            return
        }
        progress.show(try workers.counts(http: http, reported: reportedCount()))
    }

    private func reportedCount() throws -> Int {
        let page = try http.json(workers.simulatorURL("/reports?limit=1")) as? [String: Any]
        return page?["count"] as? Int ?? 0
    }

    /// Waits until everything owed is there, and then until nothing more comes.
    func awaitEnd() throws {
        var last = DemoCounts()
        var movedAt = Date()
        while true {
            try workers.refuseEnded()
            let counts = try workers.counts(http: http, reported: reportedCount())
            progress.show(counts)
            if counts != last {
                last = counts
                movedAt = Date()
            }
            let isComplete =
                counts.reported >= progress.goals.reported
                && counts.settledSales >= progress.goals.settledSales
                && counts.deadLetters >= progress.goals.deadLetters
            let quiet = Date().timeIntervalSince(movedAt)
            guard quiet < (isComplete ? Self.quietSeconds : Self.stalledSeconds) else {
                return
            }
            try http.pause(milliseconds: 100)
        }
    }

    // MARK: Accounting

    func account() throws -> DemoAccount {
        let counts = try workers.counts(http: http, reported: 0)
        let deadLetters = try deadLetters()
        var account = DemoAccount(
            truth: stream.truth,
            apple: try appleSide(),
            ledger: try ledger(),
            deadLetters: deadLetters.filter { !$0.key.hasPrefix("purchases ") },
            refusedNoticeCount: counts.refusedNotices
        )
        account.sales = try salesAccount(deadLetters: deadLetters)
        account.counted = (counts.received, counts.repeats)
        account.apps = try accounts(besides: "unknown", AppAccount.init, isSettled: \.closes)
        return account
    }

    /// The account of each app, and of what is none of theirs, once all are settled.
    ///
    /// What is held is counted once a second: it may be a moment behind.
    func accounts<Account>(
        besides other: String,
        _ count: (_ app: String, _ pages: [String]) -> Account,
        isSettled: (Account) -> Bool
    ) throws -> [Account] {
        let names = DemoStream.apps.map { String($0.appAppleID) } + [other]
        var accounts: [Account] = []
        for _ in 0..<50 {
            let pages = try workers.metricsPages(http: http)
            accounts = names.map { count($0, pages) }
            if accounts.allSatisfy(isSettled) {
                break
            }
            try http.pause(milliseconds: 100)
        }
        return accounts
    }

    func appleSide() throws -> [String: [String]] {
        var statuses: [String: [String]] = [:]
        try http.list(workers.simulatorURL("/reports"), "reports") { report in
            guard let id = report["externalPurchaseId"] as? String,
                let status = report["status"] as? String
            else {
                return
            }
            statuses[id, default: []].append(status)
        }
        return statuses
    }

    func ledger() throws -> [DemoAccount.LedgerEntry] {
        try records(of: [.reportsOutcomes]) { batch, record in
            let outcome = try ReportOutcome(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            return DemoAccount.LedgerEntry(
                externalPurchaseID: outcome.externalPurchaseID.text,
                status: outcome.status.rawValue,
                outcome: outcome.outcome.rawValue,
                attempts: outcome.attempts
            )
        }
    }

    func deadLetters() throws -> [String: Int] {
        let topics = Worker.allCases.compactMap(\.deadLetters)
        let kinds = try records(of: topics) { batch, record in
            var fields: [String: String] = [:]
            for (name, value) in HeaderList.entries(in: record.headers, of: batch.arena) {
                fields[name] = String(decoding: batch.arena[value.indices], as: UTF8.self)
            }
            return "\(fields["tollway.dlq.stage"] ?? "?") \(fields["tollway.dlq.code"] ?? "?")"
        }
        return kinds.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    func records<Value>(
        of topics: [Topic],
        read: (RecordBatch, RecordBatch.Record) throws -> Value
    ) throws -> [Value] {
        let browser = try LogBrowser(
            settings: settings,
            topics: topics.map { $0.name(prefix: topicPrefix) }
        )
        defer { browser.close() }
        try browser.start()
        var values: [Value] = []
        try browser.readToEnd { batch in
            values += try batch.records.map { try read(batch, $0) }
            try http.pause(milliseconds: 0)
        }
        return values
    }

    /// How often each fault struck.
    func faults() throws -> [(fault: String, count: Int)] {
        let answer = try http.json(workers.simulatorURL("/faults")) as? [String: Any]
        return (answer?["faults"] as? [[String: Any]] ?? []).map { fault in
            (
                fault["fault"] as? String ?? "?",
                fault["count"] as? Int ?? fault["struck"] as? Int ?? 0
            )
        }
    }
}
