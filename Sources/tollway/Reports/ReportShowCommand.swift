internal import AppStoreAPI
internal import HTTPClient
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// `tollway report show`: one report, by its request identifier.
enum ReportShowCommand {
    static let verb = Verb(
        words: ["report", "show"],
        summary: "one report by its request identifier: what was sent, when, and Apple's answer",
        operands: "REQUEST-IDENTIFIER",
        operandCountMax: 1,
        options: [
            .flag("--ask-apple", "ask Apple by GET what it holds under the identifier"),
            .value("--token", "ID", "of the report, where it is known: then it is found at once"),
            .value("--app", "ID", "appAppleId or bundle id, for --ask-apple; default: all"),
        ],
        details: """
            From the ledger: each record of the identifier, the newest last, with its line items,
            its deadline and by how much it missed it, and every request that was sent. The ledger
            is ordered by token: with --token one partition is read, and what report still owes is
            shown as well. With --ask-apple Apple is asked first, since it names the token, and
            each field that it holds otherwise is named, also against a report that was rejected.
            Without either the whole ledger is read: ten million records take a minute or two.
            Exit 1 if Apple holds something else, nothing although the ledger says so, or a report
            that the ledger has not, or does not say; 3 if the identifier is unknown, 6 without
            Kafka, 7 without Apple, 75 if a transaction in the ledger does not end.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let text = try invocation.onlyOperand(named: "REQUEST-IDENTIFIER")
        guard TokenAccount.isUUID(text) else {
            throw .usage("bad_value", "REQUEST-IDENTIFIER is \"\(text)\": it must be a UUID")
        }
        let identifier = text.lowercased()
        let token = try invocation.value("--token").map { (text) throws(CommandFailure) in
            try TokenOperand.id(text)
        }
        let configuration = try KafkaQuestion.configuration()
        let reader = LedgerReader(configuration, LedgerSelection())
        try reader.lostBeginnings(of: [.reportsOutcomes]).forEach { Console.say($0) }
        let page = try ReportShown(
            identifier: identifier,
            token: token,
            askApple: { () throws(CommandFailure) in
                invocation.has("--ask-apple")
                    ? try AppleHolding.ask(identifier, invocation, configuration) : nil
            },
            readLedger: { (token) throws(CommandFailure) in
                try claims(of: identifier, token, configuration)
            },
            readState: { (token) throws(CommandFailure) in
                try underWay(identifier, token, configuration)
            }
        )
        guard page.isKnown else {
            throw CommandFailure(
                .nothingMatched,
                code: "request.unknown_identifier",
                page.token == nil
                    ? "the ledger has no report \(identifier); one that is under way is found with"
                        + " --token"
                    : "neither the ledger nor report knows \(identifier)"
            )
        }
        Console.write(invocation.output == .table ? page.text : page.json + "\n")
        return page.isRight ? .ok : .failed
    }

    /// Records of the ledger with the identifier, the newest last.
    private static func claims(
        of identifier: String,
        _ token: TokenID?,
        _ configuration: Configuration
    ) throws(CommandFailure) -> [AppleReports.Claim] {
        var claims: [AppleReports.Claim] = []
        // Either case of its letters may stand there.
        let needles = [identifier, identifier.uppercased()].map { ByteNeedle(Array($0.utf8)) }
        var reader = LedgerReader(configuration, LedgerSelection())
        try reader.reports(
            of: token,
            isWanted: { value in
                for needle in needles where needle.isIn(value) {
                    return true
                }
                // Of one token all may be read.
                return token != nil
            }
        ) { (outcome, place) throws(CommandFailure) in
            if outcome.requestIdentifier.lowercased() == identifier {
                claims.append(AppleReports.Claim(outcome: outcome, position: place.text))
            }
            return true
        }
        return claims
    }

    /// What report still owes under the identifier.
    private static func underWay(
        _ identifier: String,
        _ token: TokenID,
        _ configuration: Configuration
    ) throws(CommandFailure) -> ReportIntent? {
        let topics: TopicSearch
        do throws(CommandFailure) {
            topics = try TopicSearch.open(stateOf: .report, configuration)
        } catch {
            guard error.exit == .nothingMatched else {
                throw error
            }
            // What the ledger and Apple say is shown all the same.
            Console.say(error.message)
            return nil
        }
        var search = TraceSearch(id: token, configuration, topics)
        return try KafkaQuestion.failing(configuration) { () throws(LogFault) -> ReportIntent? in
            try search.readState()
            let held = [search.account?.current].compactMap { $0 } + (try search.readWaiting())
            if let found = held.first(where: { $0.identifier == identifier }) {
                return found
            }
            guard search.account?.line.isEmpty == false else {
                return nil
            }
            // What waited may have its turn by now.
            try search.readState()
            return search.account?.current.flatMap { $0.identifier == identifier ? $0 : nil }
        }
    }
}

/// What Apple holds under an identifier.
struct AppleHolding {
    /// As Apple answered; nil where it holds nothing.
    var report: JSONValue?
    var lane: Lane?
    /// What each lane answered.
    var answers: [Lane: HTTPClientResponse.Answer] = [:]
    /// Lanes that could not be asked.
    var troubles: [Lane: CommandFailure] = [:]

    var token: TokenID? { report?["externalPurchaseId"]?.text.map { TokenID($0) } }

    /// Why some lanes do not say whether they hold it: they could not be asked, or answered
    /// something else.
    var unclear: [String] {
        let others = answers.filter { lane, answer in
            lane != self.lane && !AppleReports.isNotHeld(answer)
        }
        return
            (troubles.values.map(\.message)
            + others.map { lane, answer in
                "app \(lane.appAppleID) (\(lane.environment.rawValue)): \(answer.noReportSentence)"
            }).sorted()
    }

    /// Asks each app and world until one has it.
    ///
    /// - Throws: exit 7 where none could be asked.
    static func ask(
        _ identifier: String,
        _ invocation: Invocation,
        _ configuration: Configuration
    ) throws(CommandFailure) -> AppleHolding {
        let keys = try AppleKeys(configuration)
        let requests = AppStoreRequests(hosts: configuration.appleHosts)
        let queue = try AppleRequestQueue<String>(
            keys: keys,
            rate: { keys.reportsPerSecond(of: $0) }
        ) {
            identifier,
            environment,
            webToken,
            tag in
            requests.retrieveReport(
                requestIdentifier: identifier,
                environment: environment,
                webToken: webToken,
                tag: tag
            )
        }
        let apps = try keys.apps(invocation)
        for app in apps {
            for environment in AppleEnvironment.allCases {
                queue.add(
                    identifier,
                    in: Lane(appAppleID: app.appAppleID, environment: environment)
                )
            }
        }
        var holding = AppleHolding()
        while queue.isBusy {
            for result in queue.turn() {
                switch result.outcome {
                case .failure(let trouble): holding.troubles[result.lane] = trouble.failure
                case .success(let answer):
                    holding.answers[result.lane] = answer
                    let body = AppleBody(answer.isCut ? [] : answer.body)
                    if answer.status == 200, let report = body.report {
                        holding.report = report
                        holding.lane = result.lane
                    }
                }
            }
        }
        if holding.report == nil, let trouble = holding.troubles.values.first,
            holding.troubles.count == apps.count * AppleEnvironment.allCases.count
        {
            throw trouble
        }
        return holding
    }
}
