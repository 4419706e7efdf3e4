/// What Apple says to a report before it looks at its line items: S1, S4, S7 and S8.
struct ReportRules {
    /// Refuses DUPLICATE_TOKEN also where no other token of the period is reported otherwise, and
    /// any status that makes a duplicate of what was none, or the reverse (S8).
    var requiresSiblingForDuplicate: Bool

    struct Facts {
        var environment: StoreEnvironment
        /// The `bid` of the caller's JWT.
        var bundleID: String
        var isIdentifierKnown: Bool
        var token: IssuedToken?
        var standing: TokenStanding?
        var tokenHasSibling: Bool
    }

    /// Every violation of the report itself, in the order of its fields.
    func violations(_ report: ReportBody, facts: Facts) -> [ReportError] {
        var errors: [ReportError] = []
        if report.requestIdentifier == nil {
            errors.append(ReportError(.omittedField, field: "requestIdentifier"))
        } else if facts.isIdentifierKnown {
            errors.append(ReportError(.duplicateValue, field: "requestIdentifier"))
        }
        if report.externalPurchaseID == nil {
            errors.append(ReportError(.omittedField, field: "externalPurchaseId"))
        } else if !isKnown(facts) {
            errors.append(ReportError(.notFound, field: "externalPurchaseId"))
        }
        guard let status = report.status else {
            errors.append(ReportError(.omittedField, field: "status"))
            return errors
        }
        errors += statusViolations(status, report: report, facts: facts)
        return errors
    }

    /// Issued, in this environment, for the app that asks.
    private func isKnown(_ facts: Facts) -> Bool {
        guard let token = facts.token else { return false }
        return token.environment == facts.environment && token.bundleID == facts.bundleID
    }

    private func statusViolations(
        _ status: ReportStatus,
        report: ReportBody,
        facts: Facts
    ) -> [ReportError] {
        var errors: [ReportError] = []
        let regresses = status == .noLineItem || status == .unrecognizedToken
        if regresses, facts.standing?.hasLineItemReport == true, isKnown(facts) {
            errors.append(ReportError(.lineItemStatusRegression, field: "status"))
        }
        if status == .lineItem, report.lineItems?.isEmpty ?? true {
            errors.append(ReportError(.missingLineItemsForStatus, field: "status"))
        }
        // An empty array counts as line items: the member must be absent.
        if status != .lineItem, report.lineItems != nil {
            errors.append(ReportError(.lineItemsNotAllowedForStatus, field: "status"))
        }
        if isKnown(facts), !mayStand(status, facts) {
            errors.append(ReportError(.duplicateTokenStatusNotAllowed, field: "status"))
        }
        return errors
    }

    /// Whether the rules about DUPLICATE_TOKEN allow a status.
    private func mayStand(_ status: ReportStatus, _ facts: Facts) -> Bool {
        let isDuplicate = status == .duplicateToken
        if isDuplicate, facts.token?.isCustomLink == false { return false }
        guard requiresSiblingForDuplicate else { return true }
        if isDuplicate, !facts.tokenHasSibling { return false }
        guard let standing = facts.standing, standing.reportCount > 0 else { return true }
        return standing.isReportedDuplicate == isDuplicate
    }
}
