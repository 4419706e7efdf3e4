internal import TokenDomain

extension PurchaseCheckBook {
    /// Tokens by purchase key, as the worker has them: a customer's are found by the customer, one without a
    /// customer by its own id.
    static func byKey(_ tokens: [PurchaseCheckInput.OwnedToken]) -> [[UInt8]: [CustomerToken]] {
        var byKey: [[UInt8]: [CustomerToken]] = [:]
        var known: [[UInt8]: Set<TokenID>] = [:]
        for (index, owned) in tokens.enumerated() {
            let id = owned.token.externalPurchaseID
            let key = Array((owned.customer ?? id.text).utf8)
            byKey[key, default: []].append(
                CustomerToken(
                    token: owned.token,
                    offset: Int64(index),
                    hasCustomer: owned.customer != nil,
                    isLaterClaim: !known[key, default: []].insert(id).inserted
                )
            )
        }
        return byKey
    }

    /// The token that carries a sale; nil where none does, or none is known.
    func token(
        of sale: PurchaseEvent,
        _ parent: Item?
    ) throws(PurchaseFault) -> TokenID? {
        guard let tokens, let date = sale.creationDate, let app = sale.appAppleID else {
            return nil
        }
        let own = sale.purchaseKey.flatMap { tokens[Array($0.utf8)] } ?? []
        let kind: PurchaseAttribution.Sale.Kind =
            switch parent?.token {
            case nil: .buy
            case let token?:
                sale.kind == .refund ? .refund(boughtUnder: token) : .later(startedUnder: token)
            }
        let choice = PurchaseAttribution.choose(
            for: PurchaseAttribution.Sale(
                date: date,
                lane: Lane(appAppleID: app, environment: sale.environment),
                asked: sale.externalPurchaseID,
                kind: kind
            ),
            among: own,
            window: tokenWindow,
            isWaitOver: true
        )
        switch choice {
        case .token(let id): return id
        case .askedUnknown: return nil
        case .none:
            guard kind == .buy,
                !own.contains(where: { $0.token.externalPurchaseID == sale.externalPurchaseID })
            else {
                throw PurchaseFault(
                    .tokenOutOfRange,
                    .creationDate,
                    repair: "Send the token that carries a sale of this date: no known one does."
                )
            }
            return nil
        }
    }
}
