extension Worker {
    /// Every code that a dead-letter record of this worker can have.
    ///
    /// Each begins a counter series at zero when the worker starts: a series that is born with its
    /// first count is invisible to Prometheus' `increase`. The runbook has a row for each.
    package var deadLetterCodes: [String] {
        guard self != .ingest else {
            return []
        }
        return ownCodes + ["\(rawValue).output_too_large", "\(rawValue).record_refused"]
    }

    private var ownCodes: [String] {
        switch self {
        case .ingest: []
        case .decode:
            [
                "decode.too_long", "decode.empty", "decode.not_base64url", "decode.not_json",
                "decode.missing_field", "decode.wrong_type", "decode.out_of_range",
                "decode.unknown_app", "decode.bundle_mismatch", "decode.bad_customer",
                "decode.bad_envelope",
            ]
        case .dedupe: ["dedupe.bad_record"]
        case .report:
            Rejection.allCases.map { "report.\($0.rawValue)" } + [
                "report.account_full", "report.account_token_rejected", "report.app_mismatch",
                "report.bad_identifier",
                "report.bad_key", "report.bad_record", "report.bad_transaction",
                "report.duplicate_not_allowed", "report.family_shared", "report.line_items",
                "report.missing_field", "report.no_roots",
                "report.status_changed", "report.status_order",
                "report.unknown_app", "report.wrong_partition",
            ] + Self.signatureCodes
        case .notifications:
            [
                "notifications.bad_envelope", "notifications.missing_field",
                "notifications.out_of_range", "notifications.unknown_app",
                "notifications.wrong_type",
            ] + Self.signatureCodes
        case .purchases:
            PurchaseRule.allCases.map(\.code)
                + ["purchases.bad_key", "purchases.bad_record", "purchases.wrong_partition"]
        }
    }

    /// Outcomes of records that an alert counts; their series begin at zero for the same reason.
    package var countedOutcomes: [String] {
        ["forwarded"]
            + (self == .report ? ["notice_for_seen", "parked", "unknown_subtype"] : [])
    }

    /// Of signed data that is not genuine, or not ours.
    private static let signatureCodes = [
        "jws.malformed", "jws.alg", "jws.chain", "jws.certificate", "jws.oid", "jws.signature",
        "jws.wrong_app", "jws.wrong_environment",
    ]
}
