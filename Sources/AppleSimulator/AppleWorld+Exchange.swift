/// The door: who asks, how often, what goes wrong, and then the endpoint itself.
extension AppleWorld {
    /// Answers one request as Apple would and writes it into the request log.
    ///
    /// - Parameters:
    ///   - request: as it came, authorization included.
    ///   - real: real time; the world's follows from ``clock``.
    /// - Returns: the answer, and whether and when it reaches the caller.
    package func exchange(_ request: AppleRequest, real: UnixMilliseconds) -> AppleReply {
        var passage = Passage(request: request, real: real)
        let reply = pass(&passage)
        log(passage, reply: reply)
        return reply
    }

    /// One request on its way through the door, and what is learnt about it.
    private struct Passage {
        let request: AppleRequest
        let real: UnixMilliseconds
        var target: Target?
        var bundleID: String?
        var report: ReportBody?
        var fault: FaultRule?
        /// Set by what ends the passage early; nil where the answer is the outcome.
        var outcome: String?
    }

    private struct Target {
        var endpoint: AppleEndpoint
        /// The part of the path that names something; empty where there is none.
        var identifier: String
    }

    private func pass(_ passage: inout Passage) -> AppleReply {
        let request = passage.request
        let target = Self.target(of: request)
        guard
            let caller = keys.caller(
                request.authorization,
                at: passage.real / 1000,
                needsIssueTime: target?.endpoint.isExternalPurchase ?? true
            )
        else {
            passage.outcome = "unauthorized"
            return reply(.unauthenticated)
        }
        passage.bundleID = caller.bundleID
        guard let target else {
            passage.outcome = "no_such_path"
            return reply(AppleAnswer(status: 404))
        }
        passage.target = target
        if target.endpoint == .report, request.hasJSONBody {
            // The endpoint itself refuses a body that is no report, later.
            do { passage.report = try ReportBody(reading: request.body) } catch {
                passage.outcome = "malformed"
            }
        }
        let fault = faults.strike(
            target.endpoint,
            environment: request.environment,
            bundleID: caller.bundleID,
            externalPurchaseID: passage.report?.externalPurchaseID
        )
        passage.fault = fault
        if let fault, let early = answer(of: fault, real: passage.real) {
            passage.outcome = "fault"
            return AppleReply(
                answer: early,
                delivery: fault.kind == .resetBefore ? .reset : .answered,
                delayMilliseconds: 0
            )
        }
        if let retryAt = limiter.admit(
            target.endpoint,
            environment: request.environment,
            bundleID: caller.bundleID,
            now: passage.real
        ) {
            passage.outcome = "rate_limited"
            let style = target.endpoint == .report ? settings.rateLimitAnswer : .full
            return reply(style.answer(retryAt: retryAt))
        }
        let busyToken = passage.report?.externalPurchaseID.flatMap { isBusy($0) ? nil : $0 }
        let answer = serve(target, passage: passage)
        return AppleReply(
            answer: answer,
            delivery: Self.delivery(fault?.kind),
            delayMilliseconds: fault?.kind == .slow ? fault?.delayMilliseconds ?? 0 : 0,
            busyToken: busyToken
        )
    }

    /// How an answer that was made leaves.
    private static func delivery(_ fault: FaultKind?) -> AppleReply.Delivery {
        switch fault {
        case .resetAfter: .reset
        case .torn: .torn
        default: .answered
        }
    }

    private func reply(_ answer: AppleAnswer) -> AppleReply {
        AppleReply(answer: answer, delivery: .answered, delayMilliseconds: 0)
    }

    private func serve(_ target: Target, passage: Passage) -> AppleAnswer {
        let request = passage.request
        let bundleID = passage.bundleID ?? ""
        let now = clock.now(real: passage.real)
        switch target.endpoint {
        case .report:
            guard let report = passage.report else {
                return request.hasJSONBody
                    ? put(
                        request.body,
                        environment: request.environment,
                        bundleID: bundleID,
                        now: now
                    )
                    : .malformed("Simulated: Content-Type is not application/json")
            }
            return judge(report, environment: request.environment, bundleID: bundleID, now: now)
        case .reportLookup:
            return get(target.identifier, environment: request.environment, bundleID: bundleID)
        case .accountToken:
            guard request.hasJSONBody else {
                return .malformedWithoutCode
            }
            return accountTokens.set(
                request.body,
                transactionID: target.identifier,
                environment: request.environment,
                bundleID: bundleID
            )
        case .notificationHistory:
            return notificationHistory(request, bundleID: bundleID, now: now)
        case .testNotification:
            return request.method == "POST"
                ? requestTestNotification(request.environment, bundleID: bundleID, now: now)
                : testNotificationStatus(target.identifier, request.environment, bundleID: bundleID)
        }
    }

    /// The answer of a fault that strikes before anything is processed; nil for the others.
    private func answer(of fault: FaultRule, real: UnixMilliseconds) -> AppleAnswer? {
        let retryAt = real + fault.retryAfterMilliseconds
        switch fault.kind {
        case .serverError: return .error(500, code: 5_000_000, "An unknown error occurred.")
        case .serverErrorRetryable: return .error(500, code: 5_000_001, "Please try again.")
        case .serverErrorEmpty: return AppleAnswer(status: 500)
        case .unavailable: return AppleAnswer(status: 503)
        case .rateLimit: return RateLimitAnswer.full.answer(retryAt: retryAt)
        case .rateLimitNoHeader: return RateLimitAnswer.noHeader.answer(retryAt: retryAt)
        case .rateLimitBare: return RateLimitAnswer.bare.answer(retryAt: retryAt)
        case .unauthenticated: return .unauthenticated
        case .notFoundRetryable:
            return .error(404, code: 4_040_006, "Please try again.")
        case .simultaneous: return .errors([ReportError(.simultaneousSubmission)])
        // Never seen: the connection is reset instead.
        case .resetBefore: return AppleAnswer(status: 0)
        case .resetAfter, .torn, .slow: return nil
        }
    }

    private static func target(of request: AppleRequest) -> Target? {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
            .dropFirst().map(String.init)
        switch (request.method, parts.count) {
        case ("PUT", 3) where parts == ["externalPurchase", "v1", "reports"]:
            return Target(endpoint: .report, identifier: "")
        case ("GET", 4) where parts.dropLast() == ["externalPurchase", "v1", "reports"]:
            return Target(endpoint: .reportLookup, identifier: parts[3])
        case ("PUT", 5)
        where parts[..<3] == ["inApps", "v1", "transactions"] && parts[4] == "appAccountToken":
            return Target(endpoint: .accountToken, identifier: parts[3])
        case ("POST", 4) where parts == ["inApps", "v1", "notifications", "history"]:
            return Target(endpoint: .notificationHistory, identifier: "")
        case ("POST", 4) where parts == ["inApps", "v1", "notifications", "test"]:
            return Target(endpoint: .testNotification, identifier: "")
        case ("GET", 5) where parts[..<4] == ["inApps", "v1", "notifications", "test"]:
            return Target(endpoint: .testNotification, identifier: parts[4])
        default: return nil
        }
    }

    private func log(_ passage: Passage, reply: AppleReply) {
        let answer = reply.answer
        let errors = answer.status >= 400 ? Self.errors(answer.body) : []
        let codes = errors.map(\.code)
        let outcome: String
        if let early = passage.outcome {
            outcome = early
        } else if answer.status == 200 {
            outcome = passage.target?.endpoint == .report ? "accepted" : "found"
        } else {
            outcome = codes.first == 4_000_000 ? "malformed" : "refused"
        }
        requests.append(
            RequestRecord(
                sequence: 0,
                at: passage.real,
                environment: passage.request.environment,
                method: passage.request.method,
                path: passage.request.path,
                bundleID: passage.bundleID,
                requestIdentifier: passage.report?.requestIdentifier?.text
                    ?? (passage.target?.endpoint == .reportLookup
                        ? passage.target?.identifier : nil),
                externalPurchaseID: passage.report?.externalPurchaseID,
                traceparent: passage.request.traceparent,
                status: answer.status,
                errorCodes: codes,
                outcome: outcome,
                fault: passage.fault?.kind.rawValue,
                isDelivered: reply.delivery == .answered
            ),
            endpoint: passage.target?.endpoint,
            errors: Set(errors.map(\.summary))
        )
    }

    /// The errors of a body of our own, in either form: the code, and the code with its field.
    private static func errors(_ body: [UInt8]) -> [(code: Int, summary: String)] {
        let value: JSONValue
        do { value = try JSONValue(reading: body) } catch {
            // A 400 without JSON has no codes.
            return []
        }
        let objects = value["errors"]?.elements ?? [value]
        return objects.compactMap { object in
            object["errorCode"]?.integer.map { code in
                let parts = [String(code), object["fieldName"]?.text].compactMap { $0 }
                return (Int(code), parts.joined(separator: " "))
            }
        }
    }
}

extension AppleRequest {
    /// Whether the body is declared as JSON, parameters aside (S20).
    var hasJSONBody: Bool {
        guard let type = contentType?.split(separator: ";").first else { return false }
        return type.trimmed.lowercased() == "application/json"
    }
}

extension Substring {
    /// Without the blanks around it.
    var trimmed: Substring {
        var text = self
        while text.first == " " { text.removeFirst() }
        while text.last == " " { text.removeLast() }
        return text
    }
}
