/// Whether Apple knows the token, told to those whose sales it may hide or carry.
extension TokenAccount {
    /// Apple does not know the token: each customer it is said to be of must know, for another of
    /// theirs takes its place; at first those that were named before, then whoever's sale it hid.
    mutating func tellUnknown(of intent: ReportIntent, at time: Timestamp) -> [ReportEffect] {
        var told: [CustomerID?] = refusedAt == nil ? [customer] + otherCustomers : []
        if let asked = asker(of: intent), asked != customer, !told.contains(asked) {
            told.append(asked)
            if let asked {
                note(otherCustomer: asked)
            }
        }
        refusedAt = refusedAt ?? time
        return told.map { refusal(toTell: $0, refusedAt: time) }
    }

    /// Apple knows the token after all, and has a report of it: it was asked too early, or elsewhere.
    ///
    /// A dead letter of it was replayed. Those who were told otherwise must know, or none of their
    /// sales finds it.
    mutating func tellKnown(at time: Timestamp) -> [ReportEffect] {
        guard let refusedAt else {
            return []
        }
        self.refusedAt = nil
        // Who asked for sales without a customer is not among those.
        let customers = [customer].compactMap { $0 } + otherCustomers
        let told: [CustomerID?] = customers + [nil]
        return told.map { refusal(toTell: $0, refusedAt: refusedAt, withdrawnAt: time) }
    }

    /// Whoever asked for a report; nil within where its token has no customer, nil where nobody did, or
    /// nobody could read what is told.
    private func asker(of intent: ReportIntent) -> CustomerID?? {
        guard let purchaseKey = intent.purchaseKey else {
            return .none
        }
        if purchaseKey.text == externalPurchaseID.text {
            return .some(nil)
        }
        // A longer one is no customer's.
        return purchaseKey.text.utf8.count <= CustomerID.byteCount
            ? .some(CustomerID(purchaseKey.text)) : .none
    }

    mutating func note(otherCustomer another: CustomerID) {
        otherCustomers.removeAll { $0 == another }
        otherCustomers.append(another)
        otherCustomers.removeFirst(max(otherCustomers.count - Self.otherCustomerCountMax, 0))
    }

    private func refusal(
        toTell customer: CustomerID?,
        refusedAt: Timestamp,
        withdrawnAt: Timestamp? = nil
    ) -> ReportEffect {
        .refusedToken(
            TokenRefused(
                externalPurchaseID: externalPurchaseID,
                customer: customer,
                refusedAt: refusedAt,
                withdrawnAt: withdrawnAt
            )
        )
    }
}
