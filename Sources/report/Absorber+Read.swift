internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// What comes in, read, and judged as far as the record alone can be.
extension Absorber {
    /// One record, read.
    enum Input {
        case distinct(TokenDistinct)
        case notice(NotificationVerified)
        /// With the line items of each report that it becomes.
        case request(ReportRequested, parts: [String])
        /// A request with sales that is refused: its answer goes out, and no dead letter.
        case refusedSales(ReportRequested, Fault)
        case accountToken(AccountTokenIntake.Order)
        /// A request for an account token that is refused: its outcome goes out beside its dead letter.
        case refusedAccountToken(AccountTokenOutcome, Fault)
        case refused(Fault)

        var isRequest: Bool {
            if case .request = self {
                return true
            }
            return false
        }

        var isNotice: Bool {
            if case .notice = self {
                return true
            }
            return false
        }

        var externalPurchaseID: TokenID? {
            switch self {
            case .distinct(let distinct): distinct.externalPurchaseID
            case .notice(let notice): notice.token.externalPurchaseID
            case .request(let request, _), .refusedSales(let request, _): request.externalPurchaseID
            case .accountToken, .refusedAccountToken, .refused: nil
            }
        }

        func place(in partition: Int32) -> AccountPlace? {
            if case .accountToken(let order) = self {
                return AccountPlace(key: order.key, partition: partition)
            }
            return externalPurchaseID.map { AccountPlace($0, partition: partition) }
        }
    }

    func read(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        now: Timestamp
    ) -> Input {
        guard !record.value.isAbsent else {
            return .refused(Fault(code: "report.bad_record", message: "the record has no value"))
        }
        let value = batch.arena.span.extracting(record.value.indices)
        do throws(WireFault) {
            let input: Input
            switch Worker.report.sources[record.topic] {
            case .tokensDistinct: input = .distinct(try TokenDistinct(reading: value))
            case .notificationsVerified: input = .notice(try NotificationVerified(reading: value))
            case .reportsRequested: input = Self.parted(try ReportRequested(reading: value))
            case .accountTokensRequested:
                return Self.order(
                    try AccountTokenRequested(reading: value),
                    intake: intake,
                    now: now
                )
            default:
                preconditionFailure("report reads four topics")
            }
            return fault(of: input, record, batch).map { Self.refused(input, $0) } ?? input
        } catch {
            return .refused(Fault(code: "report.bad_record", message: error.message))
        }
    }

    /// What is wrong with a record beside its form.
    private func fault(
        of input: Input,
        _ record: RecordBatch.Record,
        _ batch: RecordBatch
    ) -> Fault? {
        guard let id = input.externalPurchaseID else {
            return nil
        }
        // All about a token must lie in one partition: an account in two places would report twice.
        guard !record.key.isAbsent, batch.arena[record.key.indices].elementsEqual(id.text.utf8)
        else {
            return Fault(
                code: "report.bad_key",
                message: "the record's key is not its externalPurchaseId",
                externalPurchaseID: id
            )
        }
        if batch.isMisplaced(record, partitionCount: partitionCount) {
            return Fault(
                code: "report.wrong_partition",
                message: "the record was not partitioned by murmur2 of its key",
                externalPurchaseID: id
            )
        }
        return nil
    }

    /// A request for a report, with the line items of each report that it becomes.
    private static func parted(_ request: ReportRequested) -> Input {
        guard let lineItems = request.lineItems else {
            return .request(request, parts: [])
        }
        do throws(ReportRequestFault) {
            let parts = try LineItemParts.parts(
                of: lineItems,
                externalPurchaseID: request.externalPurchaseID
            )
            return .request(request, parts: parts)
        } catch {
            return refused(
                .request(request, parts: []),
                Fault(
                    code: "report.line_items",
                    message: error.message,
                    externalPurchaseID: request.externalPurchaseID
                )
            )
        }
    }

    private static func refused(_ input: Input, _ fault: Fault) -> Input {
        guard case .request(let request, _) = input, request.purchaseKey != nil else {
            return .refused(fault)
        }
        return .refusedSales(request, fault)
    }

    func trace(of record: RecordBatch.Record, in batch: RecordBatch) -> TraceParent? {
        TraceHeader.trace(of: record, in: batch)
    }

    private static func order(
        _ requested: AccountTokenRequested,
        intake: AccountTokenIntake,
        now: Timestamp
    ) -> Input {
        do throws(AccountTokenIntake.Refusal) {
            return .accountToken(try intake.order(requested, now: now))
        } catch {
            return .refusedAccountToken(error.outcome, error.fault)
        }
    }
}
