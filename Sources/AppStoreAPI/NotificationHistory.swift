package import TokenDomain
internal import TokenWire

/// Which notifications Apple is asked for again.
///
/// Source: Get Notification History
package struct NotificationHistoryQuery: Equatable, Sendable {
    /// Apple keeps no more.
    package static let daysMax: Int64 = 180
    /// Apple takes no more requests in a second.
    package static let requestsPerSecondMax = 50

    /// Signed then or later.
    package var startDate: Timestamp
    /// Signed then or before.
    package var endDate: Timestamp
    /// Those alone that never reached us, as far as Apple knows.
    package var onlyFailures: Bool
    /// Of the page before; nil for the first.
    package var paginationToken: String?

    /// A question for the first page, or for the one after `paginationToken`.
    package init(
        startDate: Timestamp,
        endDate: Timestamp,
        onlyFailures: Bool,
        paginationToken: String? = nil
    ) {
        self.startDate = startDate
        self.endDate = endDate
        self.onlyFailures = onlyFailures
        self.paginationToken = paginationToken
    }

    var body: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("startDate", startDate.milliseconds)
        writer.field("endDate", endDate.milliseconds)
        if onlyFailures {
            writer.field("onlyFailures", true)
        }
        writer.endObject()
        return writer.bytes
    }
}

/// One page of Apple's answer.
package struct NotificationHistoryPage: Equatable, Sendable {
    /// In Apple's order; of each what it was sent as.
    package var signedPayloads: [String]
    /// Of the next page; nil for the last.
    package var nextPaginationToken: String?

    /// Nil where the body is no page: then nothing of it is known.
    ///
    /// A record without `signedPayload` makes it none, and so does `hasMore` without a token: what
    /// follows would be skipped. An object that has neither `notificationHistory` nor `hasMore`, or
    /// one of them of another type, is a proxy's or an error, and not Apple's last page.
    package init?(_ body: [UInt8]) {
        guard let body = JSONValue(body), body.members != nil else {
            return nil
        }
        let history = body["notificationHistory"]
        let more = body["hasMore"]
        guard history != nil || more != nil, history == nil || history?.elements != nil,
            more == nil || more?.flag != nil
        else {
            return nil
        }
        let records = history?.elements ?? []
        signedPayloads = records.compactMap { $0["signedPayload"]?.text }
        guard signedPayloads.count == records.count else {
            return nil
        }
        let token = body["paginationToken"]?.text
        if more?.flag == true {
            guard let token, !token.isEmpty else {
                return nil
            }
            nextPaginationToken = token
        }
    }
}
