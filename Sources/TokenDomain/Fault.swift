/// Why a record could not be used: the record's own fault, so it becomes a dead letter.
///
/// Dashboards count `code`, so renaming one is a change of its own.
package struct Fault: Error, Equatable, Sendable {
    /// Stable and dotted, such as `decode.not_base64url`, `jws.signature`, `report.rejected`.
    package var code: String
    /// One sentence for the person on call.
    ///
    /// Never a token, a key or a customer.
    package var message: String
    /// The token's id where it could still be read: decode then also forwards a `seen` record.
    package var externalPurchaseID: TokenID?

    package init(code: String, message: String, externalPurchaseID: TokenID? = nil) {
        self.code = code
        self.message = message
        self.externalPurchaseID = externalPurchaseID
    }

    /// What `tollway dlq --reason` and the metrics group by: the code without its stage.
    package var reason: Substring {
        code.firstIndex(of: ".").map { code[code.index(after: $0)...] } ?? code[...]
    }
}
