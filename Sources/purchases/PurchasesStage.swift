internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Finds the token for each sale, makes its line item and follows it until Apple has it.
final class PurchasesStage: StatefulStage {
    let derivesFromPrevious = false

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        for _ in batch.records {
            plan.conclude(
                .deadLetter(
                    Fault(code: "purchases.bad_record", message: "sales are not compiled yet")
                )
            )
        }
    }

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        changes.refuse(because: "its key is none of this worker's")
    }
}
