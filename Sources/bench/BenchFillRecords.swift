internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// The records of ``BenchFill`` by number: number n of a count always makes the same record.
struct BenchFillRecords {
    /// Its raw value is its name on the command line.
    enum Part: String, CaseIterable {
        case ledger, sales
        case deadLetters = "dead-letters"
        case settled, tokens

        /// `OutputBatch.Output.topic` is an index into it.
        var topics: [Topic] {
            switch self {
            case .ledger: [.reportsOutcomes]
            case .sales: [.purchasesOutcomes]
            case .deadLetters:
                [.deadLetters(.decode), .deadLetters(.report), .deadLetters(.purchases)]
            case .settled: [.deadLetterReplays]
            case .tokens: [.tokensReceived, .tokensDecoded, .tokensDistinct, .reportState]
            }
        }
    }

    private static let dayMilliseconds: Int64 = 86_400_000
    private static let deadLetterDays = 30
    /// Of every so many records of the ledger one has line items, one of these is a restatement,
    /// one is late, one is refused.
    private static let lineItemEvery = 5
    private static let restatementEvery = 50
    private static let lateEvery = 1_009
    private static let rejectedEvery = 503

    /// UNIX milliseconds.
    private let now: Int64
    private let span: Int64
    private let prefix: String
    private let tokens: BenchTokens
    /// Says when each of them failed.
    private let deadLetterCount: Int

    init(now: Int64, days: Int, prefix: String, deadLetterCount: Int) {
        self.deadLetterCount = deadLetterCount
        self.now = now
        span = Int64(days) * Self.dayMilliseconds
        self.prefix = prefix
        tokens = BenchTokens(now: now)
    }

    func append(_ number: Int, of count: Int, _ part: Part, to outputs: inout OutputBatch) {
        switch part {
        case .ledger: appendReport(number, at: time(number, of: count, span), to: &outputs)
        case .sales: appendSale(number, at: time(number, of: count, span), to: &outputs)
        case .deadLetters: appendDeadLetter(number, of: count, to: &outputs)
        case .settled: appendSettled(number, to: &outputs)
        case .tokens: appendToken(number, to: &outputs)
        }
    }

    /// When record n of a count was written: evenly over a span that ends now.
    private func time(_ number: Int, of count: Int, _ span: Int64) -> Int64 {
        now - span + Int64(Double(span) * (Double(number) / Double(max(count, 1))))
    }

    private func put(
        _ outputs: inout OutputBatch,
        topic: Int = 0,
        partition: Int32 = -1,
        at time: Int64,
        key: String?,
        headers: [UInt8] = [],
        _ value: (inout [UInt8]) -> Void
    ) {
        let keyRange = key.map { outputs.place($0.utf8) } ?? .absent
        let start = outputs.arena.count
        value(&outputs.arena)
        let valueRange = outputs.placed(from: start)
        let headerRange =
            headers.isEmpty ? ByteRange(start: 0, count: 0) : outputs.place(headers)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: topic,
                partition: partition,
                timestampMilliseconds: time,
                key: keyRange,
                value: valueRange,
                headers: headerRange
            )
        )
    }

    // MARK: - Ledgers

    private func appendReport(_ number: Int, at time: Int64, to outputs: inout OutputBatch) {
        let app = tokens.app(of: number)
        let id = tokens.id(number)
        let hasItems = number % Self.lineItemEvery == 0
        let isRejected = number % Self.rejectedEvery == 0
        let late: Int64 = number % Self.lateEvery == 0 ? 3_600 : 0
        let created = time - Self.dayMilliseconds
        let outcome = ReportOutcome(
            requestIdentifier: tokens.id(number, salt: 3),
            externalPurchaseID: TokenID(id),
            appAppleID: app.appAppleID,
            status: hasItems ? .lineItem : .noLineItem,
            outcome: isRejected ? .rejected : .accepted,
            httpStatus: isRejected ? 400 : 200,
            errors: isRejected ? [AppleError(code: 8, fieldName: "status", lineItemID: nil)] : [],
            attempts: 1,
            reason: hasItems ? "request" : "hold",
            firstSentAt: Timestamp(milliseconds: time - 200),
            settledAt: Timestamp(milliseconds: time),
            exchanges: [
                ReportExchange(
                    request: .send,
                    sentAt: Timestamp(milliseconds: time - 200),
                    answeredAt: Timestamp(milliseconds: time - 50),
                    httpStatus: isRejected ? 400 : 200,
                    errorCode: isRejected ? 8 : nil
                )
            ],
            details: ReportOutcome.Details(
                lineItems: hasItems ? "[\(lineItem(number, at: time))]" : nil,
                tokenCreationDate: Timestamp(milliseconds: created),
                deadline: Timestamp(milliseconds: time - 1_000 * late),
                lateBySeconds: late,
                purchaseKey: hasItems ? PurchaseKey(id) : nil
            )
        )
        put(&outputs, at: time, key: id) { outcome.write(to: &$0) }
    }

    /// A restatement says the line item of the sale before it anew.
    private func lineItem(_ number: Int, at time: Int64) -> String {
        let isRestated = number % Self.restatementEvery == 0 && number > 0
        let of = isRestated ? number - Self.lineItemEvery : number
        let exclusive = 990 + of % 100_000
        return """
            {"lineItemId":"order-\(of)","creationDate":\(time - 7_200_000),"eventType":"BUY",\
            "productType":"ONE_TIME_BUY","productIdentifier":"com.example.coins.\(of % 40)",\
            "quantity":1,"amountTaxInclusive":\(exclusive * 119 / 100),\
            "amountTaxExclusive":\(exclusive),"taxAmount":\(exclusive * 119 / 100 - exclusive),\
            "netAmountTaxExclusive":\(exclusive),"reportingCurrency":"EUR",\
            "pricingCurrency":"EUR","taxCountry":"DE"\
            \(isRestated ? ",\"restatement\":true,\"erroneouslySubmitted\":false" : "")}
            """
    }

    private func appendSale(_ number: Int, at time: Int64, to outputs: inout OutputBatch) {
        let app = tokens.app(of: number)
        let isReported = number % 3 == 0
        let sale = PurchaseOutcome(
            lineItemID: "order-\(number)",
            revision: 1,
            type: .buy,
            outcome: isReported ? .reported : .notOwed,
            externalPurchaseID: isReported ? TokenID(tokens.id(number)) : nil,
            requestIdentifier: isReported ? tokens.id(number, salt: 3) : nil,
            reason: isReported ? "accepted" : "no_active_token",
            errors: [],
            item: isReported ? lineItem(number, at: time) : nil,
            receivedAt: Timestamp(milliseconds: time - Self.dayMilliseconds),
            settledAt: Timestamp(milliseconds: time),
            lane: Lane(appAppleID: app.appAppleID, environment: .production)
        )
        put(&outputs, at: time, key: tokens.id(number)) { sale.write(to: &$0) }
    }

    // MARK: - Dead letters

    private static let faults: [(code: String, message: String)] = [
        ("not_base64url", "byte 17 is no base64url"), ("not_json", "byte 3 is no JSON"),
        ("unknown_app", "no app of ours has the appAppleId 1234567890"),
        ("missing_field", "tokenCreationDate is missing"), ("bad_customer", "customer is no c1."),
        ("bundle_mismatch", "the link names another bundle than the token"),
    ]

    /// Of ten dead letters eight are of decode, one of report and one of purchases.
    private static func worker(_ number: Int) -> (topic: Int, worker: Worker, index: Int) {
        switch number % 10 {
        case 8: (1, .report, number / 10)
        case 9: (2, .purchases, number / 10)
        case let of: (0, .decode, number / 10 * 8 + of)
        }
    }

    private func deadLetterTime(_ number: Int, of count: Int) -> Int64 {
        time(number, of: count, Int64(Self.deadLetterDays) * Self.dayMilliseconds)
    }

    /// Partition and offset follow from the number, so that ``appendSettled(_:to:)`` knows them.
    private func appendDeadLetter(_ number: Int, of count: Int, to outputs: inout OutputBatch) {
        let at = deadLetterTime(number, of: count)
        let (topic, worker, index) = Self.worker(number)
        let partition = Int32(index % BenchKafka.partitionCount)
        // One kind has most dead letters, as in an outage, and the last a handful.
        let chance = number * 31 % 1_000
        let fault =
            Self.faults[chance < 900 ? 0 : chance < 999 ? 1 + chance % 4 : Self.faults.count - 1]
        let code = worker == .report ? "report.rejected" : "\(worker.rawValue).\(fault.code)"
        var headers: [UInt8] = []
        DeadLetter(
            fault: Fault(code: code, message: fault.message),
            worker: worker,
            origin: DeadLetter.Origin(
                topic: worker.sources[0].name(prefix: prefix),
                partition: partition,
                offset: Int64(number),
                group: worker.group(prefix: prefix)
            ),
            failedAt: Timestamp(milliseconds: at)
        ).appendHeaders(to: &headers)
        let id = tokens.id(number)
        let app = tokens.app(of: number)
        put(&outputs, topic: topic, partition: partition, at: at, key: id, headers: headers) {
            arena in
            switch worker {
            case .report:
                ReportRequested(
                    externalPurchaseID: TokenID(id),
                    appAppleID: app.appAppleID,
                    bundleID: app.bundleID,
                    status: .noLineItem,
                    requestIdentifier: tokens.id(number, salt: 3),
                    lineItems: nil,
                    deadline: Timestamp(milliseconds: at + 10 * Self.dayMilliseconds),
                    purchaseKey: nil
                ).write(to: &arena)
            case .purchases:
                arena += Array(
                    """
                    {"type":"buy","lineItemId":"order-\(number)","externalPurchaseId":"\(id)",\
                    "appAppleId":\(app.appAppleID),"creationDate":\(at),\
                    "productIdentifier":"com.example.coins","quantity":1,"taxCountry":"DE",\
                    "pricingCurrency":"EUR","amountTaxInclusive":1190,"taxAmount":190,\
                    "receivedAt":\(at)}
                    """.utf8
                )
            default:
                tokens.appendReceivedValue(number, to: &arena)
            }
        }
    }

    private func appendSettled(_ number: Int, to outputs: inout OutputBatch) {
        let deadLetter = number / 8 * 10 + number % 8
        let partition = number % BenchKafka.partitionCount
        let offset = number / BenchKafka.partitionCount
        let topic = Topic.deadLetters(.decode).name(prefix: prefix)
        let at = deadLetterTime(deadLetter, of: deadLetterCount)
        put(&outputs, at: at + 60_000, key: "\(topic)/\(partition)/\(offset)") { arena in
            arena += Array(
                """
                {"state":"replayed","letterTimestamp":\(at),"replayId":"\(tokens.id(0))",\
                "at":\(at + 60_000),"target":"\(Topic.tokensReceived.name(prefix: prefix))"}
                """.utf8
            )
        }
    }

    // MARK: - Tokens

    private func appendToken(_ number: Int, to outputs: inout OutputBatch) {
        let first = outputs.outputs.count
        tokens.appendReceived(number, to: &outputs)
        tokens.appendDecoded(number, to: &outputs)
        outputs.outputs[first + 1].topic = 1
        let token: TokenDecoded
        do throws(WireFault) {
            token = try TokenDecoded(
                reading: outputs.arena.span.extracting(
                    outputs.outputs[first + 1].value.indices
                )
            )
        } catch {
            preconditionFailure("a token of the bench is one: \(error)")
        }
        let id = token.token.externalPurchaseID
        put(&outputs, topic: 2, at: now, key: id.text) { arena in
            TokenDistinct(
                externalPurchaseID: id,
                appAppleID: token.token.appAppleID,
                bundleID: token.token.bundleID,
                tokenType: token.token.tokenType,
                tokenCreationDate: token.token.tokenCreationDate,
                tokenExpirationDate: token.token.tokenExpirationDate,
                customer: token.customer,
                receivedAt: token.receivedAt,
                role: .primary
            ).write(to: &arena)
        }
        var account = TokenAccount(
            externalPurchaseID: id,
            touchedAt: Timestamp(milliseconds: now)
        )
        account.appAppleID = token.token.appAppleID
        account.bundleID = token.token.bundleID
        account.tokenType = token.token.tokenType
        account.tokenCreationDate = token.token.tokenCreationDate
        account.tokenExpirationDate = token.token.tokenExpirationDate
        account.role = .primary
        account.customer = token.customer
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = Timestamp(milliseconds: now)
        account.intentCount = 1
        put(&outputs, topic: 3, at: now, key: id.text) { account.write(to: &$0) }
    }
}
