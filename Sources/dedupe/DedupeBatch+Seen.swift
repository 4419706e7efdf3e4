internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

extension DedupeBatch {
    /// Appends the `seen` record of a token whose record becomes a dead letter: `report` must not tell
    /// Apple that nobody knows it.
    ///
    /// - Returns: how many outputs that is: none where not even the token's id can be read.
    static func appendSeen(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> Int {
        guard record.topic != refused, !record.value.isAbsent else {
            return 0
        }
        let value = batch.arena.span.extracting(record.value.indices)
        let fields = DecodedFields<String>(readableOf: value)
        let token = fields.token
        guard let id = token.externalPurchaseID, !id.isEmpty else {
            return 0
        }
        let seen = TokenDistinct(
            externalPurchaseID: TokenID(id),
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            tokenType: token.tokenType.map { TokenType(text: $0) },
            tokenCreationDate: token.tokenCreationDate.map { Timestamp(milliseconds: $0) },
            tokenExpirationDate: token.tokenExpirationDate.map { Timestamp(milliseconds: $0) },
            customer: nil,
            receivedAt: fields.receivedAt.map { Timestamp(milliseconds: $0) } ?? plan.now,
            role: .seen
        )
        let key = plan.outputs.place(seen.externalPurchaseID.text.utf8)
        plan.outputs.append(topic: distinct, key: key) { seen.write(to: &$0) }
        return 1
    }
}
