extension `The schemas of Protocols` {
    /// One fault each, in a document that is right but for it.
    static var wrong: [Case] {
        let decoded =
            #""externalPurchaseId":"i","environment":"production","appAppleId":1,"bundleId":"b","#
            + #""tokenCreationDate":1,"receivedAt":1"#
        let report =
            #""externalPurchaseId":"i","environment":"production","appAppleId":1,"bundleId":"b""#
        let uuid = "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f"
        let outcome =
            #""requestIdentifier":"\#(uuid)","externalPurchaseId":"i","environment":"production","#
            + #""appAppleId":1,"status":"NO_LINE_ITEM","outcome":"accepted","httpStatus":200,"#
            + #""errors":[],"attempts":1,"reason":"hold","firstSentAt":1"#
        let asked = #""appAccountToken":"\#(uuid)","requestedAt":1"#
        let answered =
            #""originalTransactionId":"1","appAccountToken":"\#(uuid)","outcome":"accepted","#
            + #""httpStatus":200,"attempts":1"#
        let audit =
            #""runId":"replay-20260101000000-0123abcd","part":1,"state":"running","at":1,"#
            + #""by":"a@b","filter":"","isPlan":false,"source":"dlq.tollway.decode","count":1,"#
            + #""runCount":1,"targets":{"tollway.tokens.received.v1":1}"#
        let asking =
            #""action":"report.request","runId":"request-20260101000000-0123abcd","at":1,"by":"a","#
            + #""externalPurchaseId":"i","appAppleId":1"#
        let change = #""runId":"topics-20260101000000-0123abcd","at":1,"by":"a""#
        let lane =
            #""appAppleId":1,"environment":"sandbox","at":1,"by":"a@b","why":"x""#
        let settled =
            #""letterTimestamp":1,"replayId":"replay-20260101000000-0123abcd","at":1,"#
            + #""target":"tollway.tokens.received.v1""#
        let sale =
            #""lineItemId":"a","requestIdentifier":"\#(uuid)","externalPurchaseId":"i","#
            + #""errors":[],"settledAt":1"#
        let whose = #""lineItemId":"a","externalPurchaseId":"i","appAppleId":1"#
        let amounts = #""creationDate":1760000000000,"amountTaxExclusive":10,"taxAmount":1"#
        let bought =
            #"\#(whose),\#(amounts),"productIdentifier":"p","taxCountry":"DEU","#
            + #""pricingCurrency":"EUR""#
        let subscribed =
            #"\#(bought),"subscriptionEvent":"SUBSCRIPTION_START","subscriptionId":"s","#
            + #""subscriptionStartDate":1760000000000,"subscriptionEndDate":1760000000001"#
        let refunded = #"\#(whose),\#(amounts),"type":"refund","referenceLineItemId":"b""#
        let rows: [(schema: String, right: String, wrong: [String])] = [
            (
                "tokens.received.v1", #"{"token":"a"}"#,
                [
                    "{}", "[]", #"{"token":1}"#, #"{"token":"a","bundleId":1}"#,
                    #"{"token":"a","customer":"mia@example.com"}"#,
                    #"{"token":"a","customer":"c1.\#(String(repeating: "A", count: 42))B"}"#,
                ]
            ),
            (
                "tokens.decoded.v1", #"{\#(decoded),"token":"a"}"#,
                [
                    "{\(decoded)}", #"{\#(decoded),"token":""}"#,
                    #"{\#(decoded),"token":"\#(String(repeating: "a", count: 4_097))"}"#,
                    #"{\#(decoded),"token":"a","tokenExpirationDate":0}"#,
                    #"{\#(decoded),"token":"a","appAppleId":9223372036854775808}"#,
                    #"{\#(decoded),"token":"a","environment":"sandbox"}"#,
                    #"{\#(decoded),"token":"a","externalPurchaseId":"SANDBOX_1"}"#,
                ]
            ),
            (
                "tokens.refused.v1", #"{"externalPurchaseId":"i","refusedAt":1}"#,
                [
                    #"{"externalPurchaseId":"i"}"#, #"{"externalPurchaseId":"","refusedAt":1}"#,
                    #"{"externalPurchaseId":"i","refusedAt":1,"customer":"mia@example.com"}"#,
                ]
            ),
            (
                "purchases.received.v1", #"{\#(bought)}"#,
                [
                    #"{"lineItemId":"a"}"#, #"{"lineItemId":"a","externalPurchaseId":"i"}"#,
                    #"{\#(bought),"customer":"mia@example.com"}"#,
                    #"{\#(bought),"type":"sell"}"#, #"{\#(bought),"taxAmount":-1}"#,
                    #"{\#(bought),"subscriptionEvent":"RENEWAL"}"#,
                    #"{\#(bought),"referenceLineItemId":"b"}"#,
                    #"{\#(bought),"exchangeRate":0.02}"#,
                    #"{\#(bought.replacing("\"DEU\"", with: "\"de\""))}"#,
                    #"{\#(bought.replacing("1760000000000", with: "1760000000"))}"#,
                    #"{\#(bought.replacing(",\"taxAmount\":1", with: ""))}"#,
                    #"{\#(bought.replacing(",\"appAppleId\":1", with: ""))}"#,
                ]
            ),
            (
                "purchases.received.v1", #"{\#(subscribed)}"#,
                [
                    #"{\#(subscribed),"subscriptionDaysOfPaidService":1}"#,
                    #"{\#(subscribed),"referenceLineItemId":"b"}"#,
                    #"{\#(subscribed.replacing("\"subscriptionId\":\"s\",", with: ""))}"#,
                ]
            ),
            (
                "purchases.received.v1", #"{\#(refunded)}"#,
                [
                    #"{\#(refunded),"productIdentifier":"p"}"#, #"{\#(refunded),"quantity":1}"#,
                    #"{\#(refunded.replacing(",\"referenceLineItemId\":\"b\"", with: ""))}"#,
                ]
            ),
            (
                "purchases.received.v1", #"{\#(whose),"type":"restate","taxCountry":"DEU"}"#,
                [#"{\#(whose),"type":"restate","taxAmount":1}"#, #"{\#(whose)}"#]
            ),
            (
                "purchases.received.v1", #"{\#(whose),"type":"retract"}"#,
                [#"{"lineItemId":"a","externalPurchaseId":"i","type":"retract"}"#]
            ),
            (
                "purchases.answered.v1", #"{\#(sale),"outcome":"verified","lineItemIds":["a"]}"#,
                [
                    #"{\#(sale),"outcome":"verified"}"#,
                    #"{\#(sale),"outcome":"reported","lineItemIds":["a"]}"#,
                    #"{\#(sale),"outcome":"verified","lineItemIds":"a"}"#,
                ]
            ),
            (
                "purchases.outcomes.v1",
                #"{\#(sale),"revision":1,"type":"buy","outcome":"rejected","reason":"x","receivedAt":1}"#,
                [
                    #"{\#(sale),"revision":0,"type":"buy","outcome":"rejected","reason":"x","receivedAt":1}"#,
                    // `reported` needs what Apple has.
                    #"{\#(sale),"revision":1,"type":"buy","outcome":"reported","reason":"x","receivedAt":1}"#,
                    #"{\#(sale),"revision":1,"type":"sell","outcome":"rejected","reason":"x","receivedAt":1}"#,
                ]
            ),
            (
                "tokens.distinct.v1",
                #"{"externalPurchaseId":"i","environment":"production","receivedAt":1,"role":"seen"}"#,
                [
                    #"{\#(decoded),"role":"other"}"#, #"{\#(decoded),"role":"duplicate"}"#,
                    #"{\#(decoded),"role":"primary","primaryExternalPurchaseId":"j"}"#,
                    #"{"externalPurchaseId":"i","environment":"production","receivedAt":1,"role":"primary"}"#,
                    #"{"environment":"production","receivedAt":1,"role":"seen"}"#,
                ]
            ),
            (
                "report.state.v1", #"{"externalPurchaseId":"i","touchedAt":1,"role":"seen"}"#,
                [
                    "{}", #"{"externalPurchaseId":"i"}"#,
                    #"{"externalPurchaseId":"i","touchedAt":1,"role":"duplicate"}"#,
                    #"{"externalPurchaseId":"i","touchedAt":1,"current":{}}"#,
                    #"{"externalPurchaseId":"i","touchedAt":1,"lastAccepted":"NONE"}"#,
                    #"{"originalTransactionId":"1","appAppleId":1,"bundleId":"b","touchedAt":1}"#,
                ]
            ),
            (
                "dedupe.state.v1", #"{"externalPurchaseId":"i","keysExpire":1,"head":[1,0,"i"]}"#,
                [
                    "{}", #"{"externalPurchaseId":"i"}"#, #"{"keysExpire":1}"#,
                    #"{"externalPurchaseId":"i","keysExpire":1,"head":[]}"#,
                    #"{"externalPurchaseId":"i","keysExpire":1,"head":[0]}"#,
                    #"{"externalPurchaseId":"i","keysExpire":1,"isUnheard":false}"#,
                    #"{"externalPurchaseId":"i","keysExpire":1,"token":{}}"#,
                    #"{"externalPurchaseId":"i","keysExpire":1,"refusedToken":{}}"#,
                    #"{"externalPurchaseId":"i","keysExpire":1,"knownToken":{}}"#,
                ]
            ),
            (
                "purchases.state.v1", #"{"offset":7,"touchedAt":1,"hasCustomer":true}"#,
                [
                    "{}", #"{"offset":7,"touchedAt":1,"appAppleId":1}"#,
                    #"{"standing":"live","touchedAt":1,"waitingSince":1,"wait":{"for":"tea"}}"#,
                    #"{"standing":"dead","touchedAt":1,"waitingSince":1,"wait":{"for":"now"}}"#,
                    #"{"standing":"live","wait":{"for":"now"},"waitingSince":1}"#,
                    #"{"value":"x","offset":-1,"receivedAt":1}"#,
                ]
            ),
            (
                "notifications.received.v1", #"{"signedPayload":"a","receivedAt":1}"#,
                [#"{"signedPayload":"","receivedAt":1}"#, #"{"signedPayload":"a"}"#]
            ),
            (
                "notifications.verified.v1",
                #"{\#(decoded),"notificationUUID":"u","signedDate":1}"#,
                [
                    #"{\#(decoded),"signedDate":1}"#, #"{\#(decoded),"notificationUUID":"u"}"#,
                    #"{\#(decoded),"notificationUUID":"u","signedDate":1,"subtype":1}"#,
                ]
            ),
            (
                "notifications.other.v1",
                #"{"notificationType":"TEST","payload":{},"receivedAt":1}"#,
                [
                    #"{"notificationType":"","payload":{},"receivedAt":1}"#,
                    #"{"notificationType":"TEST","payload":"{}","receivedAt":1}"#,
                    #"{"notificationType":"TEST","payload":{}}"#,
                ]
            ),
            (
                "reports.requested.v1", #"{\#(report),"status":"NO_LINE_ITEM"}"#,
                [
                    #"{\#(report),"status":"LINE_ITEM"}"#, #"{\#(report),"status":"OTHER"}"#,
                    #"{\#(report),"status":"LINE_ITEM","lineItems":[]}"#,
                    #"{\#(report),"status":"NO_LINE_ITEM","lineItems":[{}]}"#,
                    #"{\#(report),"status":"NO_LINE_ITEM","requestIdentifier":"1"}"#,
                ]
            ),
            (
                "reports.outcomes.v1", #"{\#(outcome),"settledAt":1}"#,
                [
                    "{\(outcome)}", #"{\#(outcome),"settledAt":1,"outcome":"lost"}"#,
                    #"{\#(outcome),"settledAt":1,"errors":[{}]}"#,
                    #"{\#(outcome),"settledAt":1,"httpStatus":600}"#,
                ]
            ),
            (
                "account-tokens.requested.v1", #"{\#(asked),"signedTransaction":"a"}"#,
                [
                    "{\(asked)}", #"{\#(asked),"originalTransactionId":"1","bundleId":"b"}"#,
                    #"{\#(asked),"signedTransaction":"a","appAccountToken":"me"}"#,
                ]
            ),
            (
                "account-tokens.outcomes.v1", #"{\#(answered),"settledAt":1}"#,
                ["{\(answered)}", #"{\#(answered),"settledAt":1,"outcome":"verified"}"#]
            ),
            (
                "audit.v1", #"{\#(audit),"action":"dlq.discard","why":"x"}"#,
                [
                    "{\(audit)}", #"{\#(audit),"action":"dlq.discard"}"#,
                    #"{\#(audit),"action":"dlq.replay","why":""}"#,
                    #"{\#(audit),"action":"dlq.replay","patch":[]}"#,
                    #"{\#(audit),"action":"dlq.replay","part":0}"#,
                    #"{\#(audit),"action":"dlq.replay","state":"lost"}"#,
                    #"{"action":"dlq.replay","runId":"replay-20260101000000-0123abcd","at":1,"by":"a"}"#,
                ]
            ),
            (
                "audit.v1", #"{\#(asking),"why":"x","status":"LINE_ITEM"}"#,
                [
                    #"{\#(asking),"status":"LINE_ITEM"}"#, #"{\#(asking),"why":"x"}"#,
                    #"{\#(asking),"why":"x","status":"LINE_ITEM","requestIdentifier":"1"}"#,
                ]
            ),
            (
                "audit.v1",
                #"{\#(lane),"action":"lanes.pause","runId":"pause-20260101000000-0123abcd"}"#,
                [
                    #"{"action":"lanes.reset","runId":"reset-20260101000000-0123abcd","at":1,"by":"a"}"#
                ]
            ),
            (
                "audit.v1",
                #"{\#(change),"action":"topics.apply","topics":[{"topic":"a","isNew":true,"settings":{}}]}"#,
                [
                    #"{\#(change),"action":"topics.apply"}"#,
                    #"{\#(change),"action":"topics.apply","topics":[]}"#,
                    #"{\#(change),"action":"topics.apply","topics":[{"topic":"a"}]}"#,
                    #"{\#(change),"action":"offsets.reset","part":1,"state":"running","count":0}"#,
                ]
            ),
            (
                "lanes.control.v1", #"{\#(lane),"state":"paused","resetAt":1}"#,
                [
                    "{\(lane)}", #"{\#(lane),"state":"stopped"}"#,
                    #"{\#(lane),"state":"open","resetAt":"1"}"#,
                    #"{"appAppleId":1,"state":"open","at":1,"by":"a","why":"x"}"#,
                ]
            ),
            (
                "dlq.replays.v1", #"{\#(settled),"state":"discarded"}"#,
                [
                    "{\(settled)}", #"{\#(settled),"state":"sent"}"#, #"{"state":"replayed"}"#,
                    #"{"knownSince":-1}"#, "{}",
                ]
            ),
            (
                "dlq.archive.headers", "",
                ["{}", #"{"tollway.dlq.code":"decode.empty"}"#]
            ),
            ("dead-letter.headers", "", ["{}", #"{"tollway.dlq.code":"decode.empty"}"#]),
        ]
        return rows.flatMap { row in
            let wrong = row.wrong.enumerated().map { index, document in
                Case(
                    name: "wrong \(index)",
                    schema: row.schema,
                    isValid: false,
                    document: document
                )
            }
            guard !row.right.isEmpty else {
                return wrong
            }
            let right = Case(name: "right", schema: row.schema, isValid: true, document: row.right)
            return wrong + [right]
        }
    }
}
