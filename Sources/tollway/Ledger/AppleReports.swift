internal import AppStoreAPI
internal import HTTPClient
internal import StageRuntime
internal import TokenDomain

/// Asks Apple by GET whether it holds what the ledger says.
enum AppleReports {
    /// What the ledger says that Apple has.
    struct Claim {
        var outcome: ReportOutcome
        var position: String

        var lane: Lane {
            Lane(
                appAppleID: outcome.appAppleID,
                environment: outcome.externalPurchaseID.environment
            )
        }

        /// What was sent, as far as the ledger still says it.
        var body: ReportRequestBody? {
            guard outcome.status == .lineItem else {
                return ReportRequestBody(
                    requestIdentifier: outcome.requestIdentifier,
                    externalPurchaseID: outcome.externalPurchaseID,
                    status: outcome.status
                )
            }
            guard let lineItems = outcome.details.lineItems else {
                return nil
            }
            do throws(ReportRequestFault) {
                return try ReportRequestBody(
                    requestIdentifier: outcome.requestIdentifier,
                    externalPurchaseID: outcome.externalPurchaseID,
                    lineItems: lineItems
                )
            } catch {
                // It was sent once: the record was changed.
                return nil
            }
        }
    }

    /// What Apple says to a claim.
    enum Verdict {
        case equal
        /// It holds such a report; what was in it the ledger does not say.
        case heldUnproven
        case differs([ReportDifference])
        case notHeld
        /// It answered something that says neither.
        case unclear(String)
    }

    /// A request loop with this many requests a second.
    static func queue(
        _ configuration: Configuration,
        _ keys: AppleKeys,
        rate: @escaping (Lane) -> Double
    ) throws(CommandFailure) -> AppleRequestQueue<Claim> {
        let requests = AppStoreRequests(hosts: configuration.appleHosts)
        return try AppleRequestQueue(keys: keys, rate: rate) { claim, environment, webToken, tag in
            requests.retrieveReport(
                requestIdentifier: claim.outcome.requestIdentifier,
                environment: environment,
                webToken: webToken,
                tag: tag
            )
        }
    }

    static func verdict(_ answer: HTTPClientResponse.Answer, on claim: Claim) -> Verdict {
        let body = AppleBody(answer.isCut ? [] : answer.body)
        guard answer.status == 200, let report = body.report else {
            return isNotHeld(answer) ? .notHeld : .unclear(answer.noReportSentence)
        }
        guard let sent = claim.body else {
            guard claim.outcome.details.lineItems == nil else {
                return .unclear("the line items in the ledger make no report: they were changed")
            }
            let isSame =
                report["externalPurchaseId"]?.text == claim.outcome.externalPurchaseID.text
                && report["status"]?.text == claim.outcome.status.rawValue
            return isSame ? .heldUnproven : .unclear("Apple holds another report under it")
        }
        let differences = sent.differences(from: report)
        return sent.isHeld(as: report)
            ? .equal
            : differences.isEmpty
                ? .unclear("it differs in no field by name") : .differs(differences)
    }

    /// Whether Apple says that it holds no such report.
    static func isNotHeld(_ answer: HTTPClientResponse.Answer) -> Bool {
        answer.status == 400 && !answer.isCut
            && AppleBody(answer.body).errors?.contains { $0.code == notFoundCode } == true
    }

    /// NotFoundError.
    private static let notFoundCode: Int64 = 3
}

extension HTTPClientResponse.Answer {
    /// What came instead of a report, in words.
    var noReportSentence: String {
        "HTTP \(status) " + (isCut ? "with a body that is too long" : "without a report")
    }
}

extension Configuration {
    /// Where Apple listens, as the workers see it.
    var appleHosts: AppStoreHosts {
        AppStoreHosts(production: appleProductionURL, sandbox: appleSandboxURL)
    }
}
