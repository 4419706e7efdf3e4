/// The two requests of Apple's report API.
package enum ReportRequest: String, Sendable, CaseIterable {
    /// `PUT /externalPurchase/v1/reports`
    case send
    /// `GET /externalPurchase/v1/reports/{requestIdentifier}`
    case retrieve
    /// The same for an earlier report of the token, to look for line items in it.
    case search
}

/// What came back for a request, before anybody judged it.
package struct AppleReply: Equatable, Sendable {
    package enum Transport: Equatable, Sendable {
        case answered(status: Int)
        /// Nothing acted upon the request: not one byte of it went out, or its stream was refused.
        case notSent
        /// It may have been acted upon.
        case doubtful
        /// We have no usable key for the app, so nothing was sent.
        case noKey
    }

    package var transport: Transport
    /// Why there was no answer, as far as the transport knows; nil where there was one.
    package var failure: TransportFailure?
    /// The body is markup: a page, which is a proxy's in Apple's place.
    package var isPage: Bool
    /// The reasons in the body, from `errors[]` or a bare object; nil where it holds none.
    package var errors: [AppleError]?
    /// `requestIdentifier` in the body of a 200 to a PUT.
    package var acknowledged: String?
    /// Whether the report in the body of a 200 to a GET is ours: identifier, token, status and line
    /// items by meaning; nil where the body holds no report.
    package var isOurs: Bool?
    /// Which of the line items sent the report in the body of a 200 to a GET has, by the bytes of
    /// their ids, and whether as they were sent.
    ///
    /// Nil where the body holds no report.
    package var lineItemsHeld: [[UInt8]: Bool]?
    /// When `Retry-After` allows the next request, in any form of apple-api 5.3.
    package var retryAfter: Timestamp?

    package init(
        transport: Transport,
        failure: TransportFailure? = nil,
        isPage: Bool = false,
        errors: [AppleError]? = nil,
        acknowledged: String? = nil,
        isOurs: Bool? = nil,
        lineItemsHeld: [[UInt8]: Bool]? = nil,
        retryAfter: Timestamp? = nil
    ) {
        self.transport = transport
        self.failure = failure
        self.isPage = isPage
        self.errors = errors
        self.acknowledged = acknowledged
        self.isOurs = isOurs
        self.lineItemsHeld = lineItemsHeld
        self.retryAfter = retryAfter
    }
}

/// Why a whole lane waits: it is not this report's fault.
package enum LaneTrouble: String, Sendable, CaseIterable {
    /// 429.
    case rateLimited = "rate_limited"
    /// 401: sign again once, then stop.
    case unauthorized
    /// 403, 404, 3xx, markup and every 4xx that is not Apple's: a wrong address or role, or a proxy.
    case misdirected
    /// No usable key for the app.
    case noKey = "no_key"
}

/// Why a report is not sent again by itself.
package enum Rejection: String, Sendable, CaseIterable {
    /// Apple named its reasons, or called the report malformed.
    case refused = "rejected"
    /// Apple holds something else under the identifier. Alarms.
    case conflict = "identifier_conflict"
    /// The identifier is taken, and GET shows nothing, for a day.
    case unverifiable

    /// The code of its fault.
    package var code: String { "report.\(rawValue)" }

    /// The dead letter's fault: codes and fields, never Apple's text.
    func fault(httpStatus: Int, errors: [AppleError], externalPurchaseID: TokenID) -> Fault {
        let detail =
            errors.isEmpty
            ? "HTTP \(httpStatus)" : errors.map(\.sentence).joined(separator: "; ")
        let sentence =
            switch self {
            case .refused: "Apple refuses the report: \(detail)"
            case .conflict: "Apple holds another report under this identifier"
            case .unverifiable: "Apple calls the identifier taken and shows nothing under it"
            }
        return Fault(
            code: code,
            message: sentence,
            externalPurchaseID: externalPurchaseID
        )
    }
}

/// What an answer to a report's request means: apple-api 2.7 and 2.8 as a table.
package enum ReportAnswer: Equatable, Sendable {
    /// 200: Apple has it.
    case accepted
    /// GET shows our own report.
    case verified
    /// Ask GET before anything else.
    ///
    /// - `isTaken`: Apple says that the identifier is taken.
    /// - `isRefused`: and has other reasons, which stand if GET finds nothing.
    case verify(isTaken: Bool, isRefused: Bool)
    /// GET: nothing is held under the identifier.
    case notHeld
    /// GET: 400, and no word of whether the report is held: the same PUT goes again.
    case nothingSaid
    /// GET of an earlier report: line items of ours in it, by the bytes of their ids, and whether
    /// they are as sent.
    case found([[UInt8]: Bool])
    /// Back off and try again under the same identifier.
    case again(isDoubtful: Bool, notBefore: Timestamp?)
    /// 26: reports met at Apple's; back off.
    case serialise
    /// 6, and the date is within minutes of now: a clock is off.
    case futureDate
    /// The lane waits. `until`: what Apple said.
    case lane(LaneTrouble, until: Timestamp?)
    case rejected(Rejection)
}

extension ReportAnswer {
    /// Whether any of the request left us.
    var wasSent: Bool {
        switch self {
        case .again(isDoubtful: false, _), .lane(.noKey, _): false
        case .accepted, .verified, .verify, .notHeld, .nothingSaid, .found, .again, .serialise,
            .futureDate, .lane, .rejected:
            true
        }
    }

    /// Judges a reply.
    ///
    /// The identifier is the request's. `newestDate` is the newest `creationDate` among the line
    /// items sent; nil without any.
    package init(
        _ reply: AppleReply,
        to request: ReportRequest,
        identifier: String,
        newestDate: Timestamp?,
        now: Timestamp
    ) {
        switch reply.transport {
        case .notSent:
            self = .again(isDoubtful: false, notBefore: nil)
        case .noKey:
            self = .lane(.noKey, until: nil)
        case .doubtful:
            self = .again(isDoubtful: request == .send, notBefore: nil)
        case .answered(let status):
            if let trouble = Self.trouble(status, reply) {
                self = trouble
            } else {
                self =
                    switch request {
                    case .send:
                        Self.sent(status, reply, identifier: identifier, newestDate, now: now)
                    case .retrieve:
                        Self.retrieved(status, reply)
                    case .search:
                        Self.searched(status, reply)
                    }
            }
        }
    }

    /// What has nothing to do with the report itself.
    private static func trouble(_ status: Int, _ reply: AppleReply) -> ReportAnswer? {
        switch status {
        case 401:
            .lane(.unauthorized, until: nil)
        case 429:
            .lane(.rateLimited, until: reply.retryAfter)
        case 400 where !reply.isPage, 415 where !reply.isPage, 408, 409, 413, 425:
            nil
        case 300...399, 402...405, 407, 410, 421, 426, 451:
            .lane(.misdirected, until: nil)
        case 400...499 where reply.errors == nil:
            // Apple documents none of them: a proxy or a firewall gives it, and gives it to every report.
            .lane(.misdirected, until: nil)
        default:
            nil
        }
    }

    private static func sent(
        _ status: Int,
        _ reply: AppleReply,
        identifier: String,
        _ newestDate: Timestamp?,
        now: Timestamp
    ) -> ReportAnswer {
        switch status {
        case 200 where reply.acknowledged?.lowercased() == identifier.lowercased():
            .accepted
        case 200...299, 409:
            .verify(isTaken: false, isRefused: false)
        case 400:
            refusal(reply.errors ?? [], newestDate: newestDate, now: now)
        case 408, 425:
            .again(isDoubtful: true, notBefore: nil)
        case 401...499:
            // 413, 415 and what names a reason blame the request: it will not get better by itself.
            .rejected(.refused)
        case 503:
            .again(isDoubtful: true, notBefore: reply.retryAfter)
        default:
            .again(isDoubtful: true, notBefore: nil)
        }
    }

    /// A 400: one final reason makes all final, but a taken identifier is asked of GET first.
    private static func refusal(
        _ errors: [AppleError],
        newestDate: Timestamp?,
        now: Timestamp
    ) -> ReportAnswer {
        let kinds = errors.map { AppleErrorKind($0, newestDate: newestDate, now: now) }
        if kinds.contains(.taken) {
            // A report that was accepted and is sent again earns these for its line items.
            let isRefused = zip(errors, kinds).contains { error, kind in
                kind == .final && !error.isRepeatedLineItem
                    && error.name != .repeatErroneousSubmission
            }
            return .verify(isTaken: true, isRefused: isRefused)
        }
        let isFinal = errors.isEmpty || kinds.contains(.final)
        if isFinal {
            return .rejected(.refused)
        }
        return kinds.contains(.futureDate) ? .futureDate : .serialise
    }

    private static func searched(_ status: Int, _ reply: AppleReply) -> ReportAnswer {
        if status == 200, let held = reply.lineItemsHeld {
            return .found(held)
        }
        let answer = retrieved(status, reply)
        return switch answer {
        // An item that Apple has must not be told twice: only its word ends the search.
        case .verified, .rejected, .nothingSaid: .again(isDoubtful: true, notBefore: nil)
        default: answer
        }
    }

    private static func retrieved(_ status: Int, _ reply: AppleReply) -> ReportAnswer {
        switch (status, reply.isOurs) {
        case (200, true?):
            return .verified
        case (200, false?):
            return .rejected(.conflict)
        case (400, _) where reply.errors?.contains(where: { $0.name == .notFound }) == true:
            return .notHeld
        case (400, _):
            // The same report under the same identifier does no harm (apple-api 2.8), and asking on
            // would never end.
            return .nothingSaid
        case (503, _):
            return .again(isDoubtful: true, notBefore: reply.retryAfter)
        default:
            // Whatever a GET says is no word about the report: it stays in doubt.
            return .again(isDoubtful: true, notBefore: nil)
        }
    }
}

/// What one reason of a 400 asks for.
package enum AppleErrorKind: Hashable, Sendable, CaseIterable {
    /// The identifier was accepted before: a GET shows for whom.
    case taken
    /// Another report of the same data is under way at Apple's.
    case simultaneous
    /// A date is in Apple's future, and is within minutes of now.
    case futureDate
    /// Only a person, or other data, can help.
    case final

    /// Tells by the newest date sent a clock that is off from a wrong date.
    package init(_ error: AppleError, newestDate: Timestamp?, now: Timestamp) {
        switch (error.name, error.fieldName) {
        case _ where error.isRepeatedLineItem:
            self = .final
        case (.duplicateValue, "requestIdentifier"), (.duplicateValue, nil):
            self = .taken
        case (.simultaneousSubmission, _):
            self = .simultaneous
        case (.futureDate, _):
            // A date long past is none of a clock's doing: it would be refused for ever.
            let isNear =
                newestDate.map {
                    $0 - now <= ReportPolicy.clockSkew && now - $0 <= ReportPolicy.clockSkew
                } ?? false
            self = isNear ? .futureDate : .final
        default:
            self = .final
        }
    }
}
