/// What happens on a person's devices and makes Apple issue tokens (S16, section 1.7).
package enum MintEvent: String, CaseIterable, Sendable {
    /// The first install on any device brings both custom link tokens, a later one what an update does.
    case install
    /// Also a download again: a SERVICES token where none is active.
    case update
    /// The app asks for the token of a type.
    case request
    /// A notice sheet, a link, or a token of the newer types: one token for each attempt.
    case purchase
}

/// One such event.
package struct MintOrder: Sendable {
    package var event: MintEvent
    package var environment: StoreEnvironment
    package var appAppleID: Int64
    package var bundleID: String
    package var customer: String
    /// For `request` and `purchase`.
    package var tokenType: String?
    /// A request during the period brings another identifier with the same two dates.
    package var refreshes = false

    package init(
        event: MintEvent,
        environment: StoreEnvironment,
        appAppleID: Int64,
        bundleID: String,
        customer: String,
        tokenType: String? = nil,
        refreshes: Bool = false
    ) {
        self.event = event
        self.environment = environment
        self.appAppleID = appAppleID
        self.bundleID = bundleID
        self.customer = customer
        self.tokenType = tokenType
        self.refreshes = refreshes
    }
}

extension AppleWorld {
    /// Carries out one event.
    ///
    /// - Returns: the tokens that the app then holds because of it; none where Apple gives none.
    package func mint(_ order: MintOrder, now: UnixMilliseconds) -> [IssuedToken] {
        switch order.event {
        case .install: return install(order, now: now)
        case .update: return update(order, now: now)
        case .request: return request(order, now: now)
        case .purchase: return [issueNew(order, type: order.tokenType, now: now)]
        }
    }

    private func held(_ order: MintOrder, type: String) -> [IssuedToken] {
        let holder = IssuedTokens.Holder(
            customer: order.customer,
            appAppleID: order.appAppleID,
            environment: order.environment
        )
        return tokens.tokens(of: holder).filter { $0.tokenType == type }
    }

    private func install(_ order: MintOrder, now: UnixMilliseconds) -> [IssuedToken] {
        guard held(order, type: "ACQUISITION").isEmpty else { return update(order, now: now) }
        return [issueNew(order, type: "ACQUISITION", now: now)] + update(order, now: now)
    }

    private func update(_ order: MintOrder, now: UnixMilliseconds) -> [IssuedToken] {
        let isCovered = held(order, type: "SERVICES").contains { $0.isActive(at: now) }
        return isCovered ? [] : [issueNew(order, type: "SERVICES", now: now)]
    }

    private func request(_ order: MintOrder, now: UnixMilliseconds) -> [IssuedToken] {
        guard let type = order.tokenType, type == "ACQUISITION" || type == "SERVICES" else {
            return [issueNew(order, type: order.tokenType, now: now)]
        }
        let tokens = held(order, type: type)
        if let active = tokens.last(where: { $0.isActive(at: now) }) {
            return [order.refreshes ? refresh(active, order, now: now) : active]
        }
        // Production waits for an event; ACQUISITION has one period ever, also in the sandbox.
        let mayBegin =
            order.environment == .sandbox && (type == "SERVICES" || tokens.isEmpty)
        return mayBegin ? [issueNew(order, type: type, now: now)] : []
    }

    private func refresh(
        _ token: IssuedToken,
        _ order: MintOrder,
        now: UnixMilliseconds
    ) -> IssuedToken {
        var refreshed = token
        refreshed.externalPurchaseID = newIdentifier(order.environment)
        issue(refreshed, now: now)
        return refreshed
    }

    private func issueNew(
        _ order: MintOrder,
        type: String?,
        now: UnixMilliseconds
    ) -> IssuedToken {
        let token = IssuedToken(
            externalPurchaseID: newIdentifier(order.environment),
            appAppleID: order.appAppleID,
            bundleID: order.bundleID,
            tokenType: type,
            tokenCreationDate: now,
            tokenExpirationDate: lifetime(type, order.environment).map { now + $0 },
            customer: order.customer
        )
        issue(token, now: now)
        return token
    }

    private func lifetime(_ type: String?, _ environment: StoreEnvironment) -> Int64? {
        switch type {
        case "ACQUISITION", "SERVICES":
            guard environment == .production else { return settings.lifetimes.sandboxMilliseconds }
            return type == "SERVICES"
                ? settings.lifetimes.servicesMilliseconds
                : settings.lifetimes.acquisitionMilliseconds
        default: return nil
        }
    }

    private func newIdentifier(_ environment: StoreEnvironment) -> String {
        (environment == .sandbox ? "SANDBOX_" : "") + generator.nextUUID()
    }
}

/// How the text of a token is laid out: Apple's own samples differ in all of it (section 1.6).
package struct TokenText: Equatable, Sendable {
    package enum Blanks: String, CaseIterable, Sendable {
        case none
        /// A line feed after the closing brace.
        case trailing
        /// Line feeds and tabs between the members.
        case pretty
        /// Runs of spaces before the line feeds.
        case ragged
    }

    package var blanks = Blanks.none
    package var isPadded = false
    /// With `+` and `/` instead of `-` and `_`.
    package var hasStandardAlphabet = false

    package init(blanks: Blanks = .none, isPadded: Bool = false, hasStandardAlphabet: Bool = false)
    {
        self.blanks = blanks
        self.isPadded = isPadded
        self.hasStandardAlphabet = hasStandardAlphabet
    }

    /// What an app receives from `token(for:)`.
    package func encode(_ token: IssuedToken) -> String {
        Base64Text.encode(
            json(token),
            alphabet: hasStandardAlphabet ? Base64Text.standardAlphabet : Base64Text.urlAlphabet,
            isPadded: isPadded
        )
    }

    private func json(_ token: IssuedToken) -> [UInt8] {
        let compact = JSONValue.object(token.claims).bytes
        switch blanks {
        case .none: return compact
        case .trailing: return compact + [0x0A]
        case .pretty, .ragged:
            let members = token.claims.map { member in
                "\t" + String(decoding: JSONValue.string(member.name).bytes, as: UTF8.self) + " : "
                    + String(decoding: member.value.bytes, as: UTF8.self)
            }
            let lineEnd = blanks == .pretty ? "\n" : "   \n"
            return Array(
                ("{" + lineEnd + members.joined(separator: "," + lineEnd) + lineEnd + "}").utf8
            )
        }
    }
}
