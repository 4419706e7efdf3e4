/// Apple's side of the external purchase APIs as one state machine: no clock, no sockets.
///
/// Sources/AppleSimulator shares no rule with the programs it judges; its rows S1…S21 are section 7
/// of the reference. Not thread-safe: one owner at a time.
package final class AppleWorld {
    package struct Settings: Sendable {
        /// DUPLICATE_TOKEN only where the person holds another token of the period that is none, and
        /// neither before nor after another status (S8).
        package var requiresSiblingForDuplicate = false
        /// Code 26 where two reports of one token overlap in time (S11).
        package var refusesSimultaneousReports = true
        /// GET's NotFoundError inside `errors`, or bare (S12).
        package var wrapsLookupErrors = true
        /// Requests per second of production; `report` is unlimited unless set (S14).
        package var limitPerSecond: [AppleEndpoint: Double] = [:]
        package var rateWindowsMilliseconds: [Int64] = [3_600_000]
        package var rateLimitAnswer = RateLimitAnswer.full
        package var requestLogCapacity = 10_000
        /// Line items dated before are too old (code 27); the threshold is not published.
        package var lineItemDateFloor: UnixMilliseconds = 1_640_995_200_000
        package var lifetimes = TokenLifetimes()
        /// Of identifiers and all chance but that of faults.
        package var seed: UInt64 = 1

        package init() {}
    }

    package let settings: Settings
    package var clock = WorldClock()
    var tokens = IssuedTokens()
    var keys = APIKeys()
    var faults = FaultPlan()
    var limiter = RateLimiter()
    var accountTokens = AccountTokens()
    var notifications = NotificationBook()
    var requests: RequestLog
    var generator: SeededGenerator
    private var productionReports = ReportStore()
    private var sandboxReports = ReportStore()
    private var lineItems: [AppKey: LineItemBook] = [:]

    /// An app in one environment: line item identifiers are unique within.
    private struct AppKey: Hashable {
        var environment: StoreEnvironment
        var bundleID: String
    }

    /// The line items of every app: the newest version of each.
    var lineItemBooks: [(environment: StoreEnvironment, bundleID: String, book: LineItemBook)] {
        lineItems.map { ($0.key.environment, $0.key.bundleID, $0.value) }
            .sorted {
                ($0.environment.rawValue, $0.bundleID) < ($1.environment.rawValue, $1.bundleID)
            }
    }

    /// Tokens whose report is being answered.
    private var busyTokens: Set<String> = []

    package init(settings: Settings = Settings()) {
        self.settings = settings
        limiter.limitPerSecond.merge(settings.limitPerSecond) { _, new in new }
        limiter.windowsMilliseconds = settings.rateWindowsMilliseconds
        requests = RequestLog(capacity: settings.requestLogCapacity)
        generator = SeededGenerator(seed: settings.seed)
    }

    // MARK: What exists

    /// Makes a token known as issued; false where its identifier is taken.
    @discardableResult
    package func register(_ token: IssuedToken) -> Bool {
        tokens.add(token)
    }

    package func token(_ externalPurchaseID: String) -> IssuedToken? {
        tokens.token(externalPurchaseID)
    }

    package func add(_ fault: FaultRule) {
        faults.add(fault)
    }

    package func removeFaults() {
        faults.removeAll()
    }

    /// Every accepted report, for tests that look at the world without a network.
    package var acceptedReports: [(externalPurchaseID: String, status: String)] {
        StoreEnvironment.allCases.flatMap { environment in
            reports(environment).entries.map { entry in
                (tokens.tokens[Int(entry.tokenIndex)].externalPurchaseID, entry.status.rawValue)
            }
        }
    }

    func reports(_ environment: StoreEnvironment) -> ReportStore {
        environment == .production ? productionReports : sandboxReports
    }

    // MARK: Reports

    /// Send External Purchase Report, from an app that has shown who it is.
    ///
    /// - Parameters:
    ///   - body: the request's body.
    ///   - environment: whose door it came through.
    ///   - bundleID: the `bid` of its JWT.
    ///   - now: the world's time.
    /// - Returns: 200, or 400 with every violation or, of what is no report, without a list.
    package func put(
        _ body: [UInt8],
        environment: StoreEnvironment,
        bundleID: String,
        now: UnixMilliseconds
    ) -> AppleAnswer {
        do {
            let report = try ReportBody(reading: body)
            return judge(report, environment: environment, bundleID: bundleID, now: now)
        } catch {
            return .malformed("Simulated: \(error.sentence)")
        }
    }

    /// Retrieve External Purchase Report (S12).
    package func get(
        _ requestIdentifier: String,
        environment: StoreEnvironment,
        bundleID: String
    ) -> AppleAnswer {
        let store = reports(environment)
        guard let key = UUIDKey(requestIdentifier), let entry = store.entry(key),
            tokens.tokens[Int(entry.tokenIndex)].bundleID == bundleID
        else {
            let error = ReportError(.notFound, field: "requestIdentifier")
            return settings.wrapsLookupErrors ? .errors([error]) : .json(400, error.json)
        }
        let body = Array("{\"report\":".utf8) + store.body(of: entry) + [UInt8(ascii: "}")]
        return AppleAnswer(
            status: 200,
            headers: ["Content-Type": "application/json"],
            body: body
        )
    }

    /// The token is busy until ``release(_:)``: a report of it meanwhile gets code 26.
    package func hold(_ externalPurchaseID: String) {
        busyTokens.insert(externalPurchaseID)
    }

    func isBusy(_ externalPurchaseID: String) -> Bool {
        busyTokens.contains(externalPurchaseID)
    }

    package func release(_ externalPurchaseID: String) {
        busyTokens.remove(externalPurchaseID)
    }

    func judge(
        _ report: ReportBody,
        environment: StoreEnvironment,
        bundleID: String,
        now: UnixMilliseconds
    ) -> AppleAnswer {
        if settings.refusesSimultaneousReports, let id = report.externalPurchaseID,
            isBusy(id)
        {
            return .errors([ReportError(.simultaneousSubmission)])
        }
        let index = report.externalPurchaseID.flatMap { tokens.index(of: $0) }
        let store = reports(environment)
        let token = index.map { tokens.tokens[$0] }
        let facts = ReportRules.Facts(
            environment: environment,
            bundleID: bundleID,
            isIdentifierKnown: report.requestIdentifier.map { store.contains($0) } ?? false,
            token: token,
            standing: index.map { tokens.standings[$0] },
            tokenHasSibling: settings.requiresSiblingForDuplicate
                && token.map { tokens.hasSibling($0) } ?? false
        )
        let rules = ReportRules(requiresSiblingForDuplicate: settings.requiresSiblingForDuplicate)
        var errors = rules.violations(report, facts: facts)
        if report.status == .lineItem, let items = report.lineItems {
            errors += LineItemRules(
                items,
                token: token,
                book: lineItems[AppKey(environment: environment, bundleID: bundleID)]
                    ?? LineItemBook(),
                dateFloor: settings.lineItemDateFloor,
                now: now
            ).violations()
        }
        guard errors.isEmpty, let index, let identifier = report.requestIdentifier,
            let status = report.status
        else { return .errors(errors) }
        accept(report, identifier, status, tokenIndex: index, environment: environment, now: now)
        return .json(
            200,
            .object([JSONMember("requestIdentifier", .string(identifier.text))])
        )
    }

    /// The one place where a report becomes true (S3).
    private func accept(
        _ report: ReportBody,
        _ identifier: UUIDKey,
        _ status: ReportStatus,
        tokenIndex: Int,
        environment: StoreEnvironment,
        now: UnixMilliseconds
    ) {
        tokens.noteReport(status, at: tokenIndex)
        if let items = report.lineItems {
            let app = AppKey(
                environment: environment,
                bundleID: tokens.tokens[tokenIndex].bundleID
            )
            lineItems[app, default: LineItemBook()].apply(items)
        }
        switch environment {
        case .production:
            productionReports.append(
                report,
                identifier: identifier,
                status: status,
                tokenIndex: tokenIndex,
                acceptedAt: now
            )
        case .sandbox:
            sandboxReports.append(
                report,
                identifier: identifier,
                status: status,
                tokenIndex: tokenIndex,
                acceptedAt: now
            )
        }
    }
}

/// How long tokens live; only the sandbox's hour is published.
package struct TokenLifetimes: Sendable {
    package var servicesMilliseconds: Int64 = 365 * 86_400_000
    package var acquisitionMilliseconds: Int64 = 365 * 86_400_000
    package var sandboxMilliseconds: Int64 = 3_600_000

    package init() {}
}
