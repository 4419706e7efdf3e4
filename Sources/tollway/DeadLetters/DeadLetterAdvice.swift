/// What the codes of dead letters mean, and what to do about each: the table of the runbook, section
/// "Dead letters grow", for the page.
///
/// A test compares it. A code that is not here is looked up in the runbook by a person.
enum DeadLetterAdvice {
    struct Row: Equatable {
        var codes: [String]
        var means: String
        var todo: String
    }

    static let rows: [Row] = [
        Row(
            codes: [
                "decode.empty", "decode.too_long", "decode.not_base64url", "decode.not_json",
                "decode.missing_field", "decode.wrong_type", "decode.out_of_range",
            ],
            means: "not a token: cut off, quoted, encoded twice, or made up",
            todo: "a few are usual; many of one app are a release of it"
        ),
        Row(
            codes: ["decode.unknown_app", "notifications.unknown_app", "report.unknown_app"],
            means: "the app is not in TOLLWAY_APPS_FILE",
            todo: "add it; SIGHUP to decode, notifications, report and purchases; replay"
        ),
        Row(
            codes: ["decode.bundle_mismatch"],
            means: "token and apps file, or token and link, name different apps",
            todo: "find out which is wrong; a link with a foreign bundleId stays"
        ),
        Row(
            codes: ["decode.bad_customer"],
            means: "somebody writes the topic directly, without the keyed code",
            todo: "have the writer do as Protocols/customer-id.json shows"
        ),
        Row(
            codes: ["decode.bad_envelope"],
            means: "the record is no value of tokens.received.v1",
            todo: "have the writer send what the schema in Protocols/ asks for"
        ),
        Row(
            codes: ["jws.chain", "jws.certificate", "jws.oid"],
            means: "not signed under our roots, or not by a certificate for signing data: somebody "
                + "else writes the topic, or ingest has other roots than notifications",
            todo: "compare the roots.pem of both with Apple's; else leave them"
        ),
        Row(
            codes: ["jws.malformed", "jws.alg", "jws.signature"],
            means: "forged or damaged by who writes the topic: ingest stores no such thing",
            todo: "leave them"
        ),
        Row(
            codes: ["jws.wrong_app", "jws.wrong_environment"],
            means: "signed by Apple, for another app or environment than the apps file says",
            todo: "compare appAppleId and bundleId with App Store Connect; else leave them"
        ),
        Row(
            codes: ["notifications.bad_envelope"],
            means: "the record is no value of notifications.received.v1",
            todo: "somebody else writes this topic"
        ),
        Row(
            codes: [
                "notifications.missing_field", "notifications.wrong_type",
                "notifications.out_of_range",
            ],
            means: "signed by Apple, and not as Apple documents it",
            todo: "keep it; compare with Apple's release notes; a new version may read it: replay "
                + "then"
        ),
        Row(
            codes: ["report.rejected"],
            means: "Apple refused it; the message has Apple's codes and fields",
            todo: "correct what they name: A report by hand, under its own --identifier. "
                + "Code 3 on externalPurchaseId of tokens that are yours: Apple was asked at the "
                + "wrong host, or too early; replay them once that is mended, and what Apple "
                + "accepts then carries sales again (withdrawnAt in tokens.refused.v1)"
        ),
        Row(
            codes: ["report.unverifiable"],
            means: "Apple calls the identifier taken and shows nothing, for a day",
            todo: "ask Apple, with the identifier"
        ),
        Row(
            codes: ["report.identifier_conflict"],
            means: "its own section below",
            todo: "see RUNBOOK.md, \"identifier_conflict\""
        ),
        Row(
            codes: ["report.account_token_rejected"],
            means: "Apple refused to set an app account token, or answered 5000000 or "
                + "one of its codes to retry for a day",
            todo: "account-tokens.outcomes.v1 has Apple's code; of these replay it later"
        ),
        Row(
            codes: ["report.no_roots"],
            means: "a signed transaction, and no TOLLWAY_APPLE_ROOTS_FILE",
            todo: "set it; replay"
        ),
        Row(
            codes: ["report.bad_transaction", "report.family_shared"],
            means:
                "a signed transaction without what a request needs, or one of family sharing, for "
                + "which Apple sets no token",
            todo: "discard"
        ),
        Row(
            codes: [
                "report.bad_key", "report.wrong_partition", "purchases.bad_key",
                "purchases.wrong_partition",
            ],
            means:
                "a record written by hand: its key is not its externalPurchaseId (of a sale: the "
                + "customer, where it names one), or it is in another partition than the key's",
            todo: "have the writer use murmur2_random and that key; write it again"
        ),
        Row(
            codes: [
                "report.missing_field", "report.app_mismatch", "report.bad_identifier",
                "report.line_items", "report.duplicate_not_allowed",
            ],
            means: "a report asked for by hand that Apple would refuse; the message says why",
            todo: "correct it and ask again"
        ),
        Row(
            codes: ["report.status_order", "report.status_changed"],
            means: "Apple has accepted a status that the one asked for may not follow, or the "
                + "identifier was asked for with another status before, or with other line items "
                + "where Apple calls it taken",
            todo: "tollway report request shows what may follow; after report.unverifiable ask "
                + "Apple before other line items go under another identifier"
        ),
        Row(
            codes: [
                "decode.record_refused", "decode.output_too_large", "dedupe.record_refused",
                "dedupe.output_too_large", "report.record_refused", "report.output_too_large",
                "purchases.record_refused", "purchases.output_too_large",
                "notifications.record_refused", "notifications.output_too_large",
            ],
            means: "Kafka does not take what the record becomes",
            todo: "a topic's max.message.bytes was lowered: tollway topics plan, apply; restart "
                + "the worker, which reads it at its start; replay"
        ),
        Row(
            codes: ["dedupe.bad_record", "report.bad_record", "purchases.bad_record"],
            means: "a record between our own stages cannot be read, or a text in it is longer than "
                + "its schema's maxLength",
            todo: "somebody else writes this topic, or versions are mixed"
        ),
        Row(
            codes: ["report.account_full"],
            means:
                "with this record the token's state would pass what Kafka takes as one record. How "
                + "many reports wait for the token is nothing (each has a record of its own); how "
                + "large one is counts, twice",
            todo: "ask for fewer line items at once; where max.message.bytes of a topic that "
                + "report writes is below Kafka's default: tollway topics plan, apply; restart "
                + "report; replay"
        ),
    ]

    /// By code.
    static var json: String {
        JSONLines.object(
            rows.flatMap { row in
                row.codes.map { code in
                    (
                        code,
                        JSONLines.object(
                            Fact.text("means", row.means) + Fact.text("todo", row.todo)
                        )
                    )
                }
            }
        )
    }
}
