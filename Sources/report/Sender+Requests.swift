internal import AppStoreAPI
internal import TokenDomain

/// What is sent for a debt.
extension Sender {
    /// The next request; nil where nothing is left to send.
    func nextRequest(of debtor: Debtor) -> (Flight.Purpose, AppleRequest.Action)? {
        switch debtor {
        case .token(let account):
            guard let intent = account.current, let request = account.nextRequest else {
                return nil
            }
            let body = Self.body(of: intent, of: account.externalPurchaseID)
            let purpose = Flight.Purpose.report(
                number: intent.number,
                requestCount: intent.requestCount,
                request,
                of: Flight.SentReport(
                    identifier: intent.identifier,
                    newestDate: body.newestCreationDate,
                    failureCount: intent.failureCount
                )
            )
            switch request {
            case .send:
                return (purpose, .sendReport(body))
            case .retrieve, .search:
                let identifier = account.searchedIdentifier(policy: policy) ?? intent.identifier
                return (purpose, .retrieveReport(requestIdentifier: identifier, sent: body))
            }
        case .transaction(let debt):
            return debt.current.map { request in
                (
                    .accountToken(request.appAccountToken, attempts: debt.attempts),
                    .setAccountToken(
                        request.appAccountToken,
                        originalTransactionID: debt.originalTransactionID
                    )
                )
            }
        }
    }

    private static func body(of intent: ReportIntent, of id: TokenID) -> ReportRequestBody {
        guard let lineItems = intent.lineItems else {
            return ReportRequestBody(
                requestIdentifier: intent.identifier,
                externalPurchaseID: id,
                status: intent.status
            )
        }
        func body(_ lineItems: String) throws(ReportRequestFault) -> ReportRequestBody {
            try ReportRequestBody(
                requestIdentifier: intent.identifier,
                externalPurchaseID: id,
                lineItems: lineItems
            )
        }
        do throws(ReportRequestFault) {
            return try body(lineItems)
        } catch .tooLarge {
            // An earlier version kept the blanks between them.
            do throws(ReportRequestFault) {
                let parts = try LineItemParts.parts(of: lineItems, externalPurchaseID: id)
                precondition(parts.count == 1, "an intent has line items for one report")
                return try body(parts[0])
            } catch {
                preconditionFailure("line items are checked when they are absorbed: \(error)")
            }
        } catch {
            preconditionFailure("line items are checked when they are absorbed: \(error.message)")
        }
    }
}
