internal import Crypto

/// What Apple means to send, when, and the result of each attempt (S17, S18).
struct NotificationBook {
    /// Beyond it the schedule drops and counts, and the admin call is refused; 3 KB each.
    static let countMax = 500_000
    /// Events of one turn: each may sign a notification, and Apple answers nobody meanwhile.
    static let eventCountMax = 256
    static let reminderMilliseconds: Int64 = 30 * 86_400_000
    static let unreportedMilliseconds: Int64 = 10 * 86_400_000
    /// "Soon after expiry", in Apple's words.
    static let afterExpiryMilliseconds: Int64 = 3_600_000

    enum Event: Sendable {
        case reminder(tokenIndex: Int32)
        case unreported(tokenIndex: Int32)
        case attempt(notificationIndex: Int32)
    }

    /// Where to send; environments without one get no notifications by themselves.
    var urlByEnvironment: [StoreEnvironment: String] = [:]
    var stored: [StoredNotification] = []
    var due = DueQueue<Event>()
    var testIndexByToken: [String: Int] = [:]
    private(set) var droppedCount = 0
    /// Made at the first use: it takes some milliseconds.
    var signer: NotificationSigner?

    func hasRoom(for count: Int) -> Bool {
        stored.count + count <= Self.countMax
    }

    /// Whether the schedule may make one more; counts where it may not.
    mutating func takeRoom() -> Bool {
        if hasRoom(for: 1) { return true }
        droppedCount += 1
        return false
    }
}

/// One POST to be made.
struct NotificationDelivery: Sendable {
    var notificationIndex: Int
    var url: String
    var body: [UInt8]
}

extension AppleWorld {
    /// Where Apple sends the notifications of an environment; nil for nowhere.
    package func setNotificationURL(_ url: String?, for environment: StoreEnvironment) {
        notifications.urlByEnvironment[environment] = url
    }

    /// The root under which notifications are signed, in PEM.
    package var rootPEM: [UInt8] { signer.rootPEM }

    var signer: NotificationSigner {
        if let signer = notifications.signer { return signer }
        do {
            let signer = try NotificationSigner()
            notifications.signer = signer
            return signer
        } catch {
            preconditionFailure("OpenSSL cannot make certificates: \(error)")
        }
    }

    /// Registers a token and begins its notifications, as far as its environment has a URL.
    ///
    /// - Returns: false where the identifier is taken.
    @discardableResult
    package func issue(_ token: IssuedToken, now: UnixMilliseconds) -> Bool {
        guard register(token) else { return false }
        guard notifications.urlByEnvironment[token.environment] != nil else { return true }
        let index = Int32(tokens.count - 1)
        if token.tokenType != nil, notifications.takeRoom() {
            notify(token, subtype: .created, now: now)
        }
        if token.isCustomLink {
            // Of an old token the last one due, not each since its creation.
            let month = NotificationBook.reminderMilliseconds
            let age = max(0, now.subtractingReportingOverflow(token.tokenCreationDate).partialValue)
            let first = token.tokenCreationDate.later(by: max(1, age / month) * month)
            notifications.due.add(.reminder(tokenIndex: index), due: first)
        }
        let unreported =
            token.tokenExpirationDate?.later(by: NotificationBook.afterExpiryMilliseconds)
            ?? token.tokenCreationDate.later(by: NotificationBook.unreportedMilliseconds)
        notifications.due.add(.unreported(tokenIndex: index), due: unreported)
        return true
    }

    /// Signs a notification about a token and, where there is a URL, makes it due at once.
    ///
    /// - Parameters:
    ///   - token: what it is about.
    ///   - subtype: why Apple writes.
    ///   - now: the world's time: `signedDate`.
    ///   - url: instead of the environment's.
    ///   - isSent: false to sign and keep it only.
    ///   - forgery: how it is wrong, if it is.
    /// - Returns: its index among the stored ones.
    @discardableResult
    func notify(
        _ token: IssuedToken,
        subtype: NotificationSubtype,
        now: UnixMilliseconds,
        url: String? = nil,
        isSent: Bool = true,
        forgery: NotificationForgery? = nil
    ) -> Int {
        var claims = token
        if forgery == .wrongBundle {
            claims.bundleID += ".foreign"
            claims.appAppleID += 1
        }
        return store(
            type: "EXTERNAL_PURCHASE_TOKEN",
            subtype: subtype.rawValue,
            subject: JSONMember("externalPurchaseToken", .object(claims.claims)),
            token: token,
            environment: token.environment,
            bundleID: token.bundleID,
            url: isSent ? url ?? notifications.urlByEnvironment[token.environment] : nil,
            forgery: forgery,
            now: now
        )
    }

    /// The payload of a notification, signed, without keeping it: for tests without a network.
    package func signedNotification(
        _ token: IssuedToken,
        subtype: NotificationSubtype,
        now: UnixMilliseconds,
        forgery: NotificationForgery? = nil
    ) -> String {
        let index = notify(token, subtype: subtype, now: now, isSent: false, forgery: forgery)
        return notifications.stored.remove(at: index).signedPayload
    }

    func store(
        type: String,
        subtype: String?,
        subject: JSONMember,
        token: IssuedToken? = nil,
        environment: StoreEnvironment,
        bundleID: String,
        url: String?,
        forgery: NotificationForgery? = nil,
        now: UnixMilliseconds
    ) -> Int {
        let uuid = generator.nextUUID()
        var members = [JSONMember("notificationType", .string(type))]
        members += JSONMember.present("subtype", subtype.map { .string($0) })
        members += [
            JSONMember("notificationUUID", .string(uuid)), JSONMember("version", .string("2.0")),
            JSONMember("signedDate", .integer(now)), subject,
        ]
        let attemptCountMax =
            environment == .production && forgery == nil
            ? StoredNotification.hoursBetweenAttempts.count + 1 : 1
        notifications.stored.append(
            StoredNotification(
                uuid: uuid,
                type: type,
                subtype: subtype,
                environment: environment,
                bundleID: bundleID,
                externalPurchaseID: token?.externalPurchaseID,
                signedAt: now,
                signedPayload: signer.sign(.object(members), forgery: forgery),
                attemptCountMax: attemptCountMax
            )
        )
        let index = notifications.stored.count - 1
        if let url { send(index, to: url, times: 1, now: now) }
        return index
    }

    /// Makes a stored notification due now, several times where duplicates are wanted.
    func send(_ index: Int, to url: String, times: Int, now: UnixMilliseconds) {
        notifications.stored[index].url = url
        for _ in 0..<times {
            notifications.due.add(.attempt(notificationIndex: Int32(index)), due: now)
        }
    }

    /// What is to be sent now, at most `limit`; reminders and the like are made on the way, and of all
    /// events at most ``NotificationBook/eventCountMax``.
    func takeDeliveries(at now: UnixMilliseconds, limit: Int) -> [NotificationDelivery] {
        var deliveries: [NotificationDelivery] = []
        var eventCount = 0
        while deliveries.count < limit, eventCount < NotificationBook.eventCountMax,
            let (due, event) = notifications.due.takeFirst(at: now)
        {
            eventCount += 1
            switch event {
            case .attempt(let index):
                let notification = notifications.stored[Int(index)]
                guard let url = notification.url else { continue }
                deliveries.append(
                    NotificationDelivery(
                        notificationIndex: Int(index),
                        url: url,
                        body: notification.requestBody
                    )
                )
            case .reminder(let index): remind(index, due: due, now: now)
            case .unreported(let index):
                if tokens.standings[Int(index)].reportCount == 0, notifications.takeRoom() {
                    notify(tokens.tokens[Int(index)], subtype: .unreported, now: now)
                }
            }
        }
        return deliveries
    }

    /// Monthly while the token is active, unless it was reported as a duplicate.
    private func remind(_ index: Int32, due: UnixMilliseconds, now: UnixMilliseconds) {
        let token = tokens.tokens[Int(index)]
        guard token.isActive(at: due) else { return }
        if !tokens.standings[Int(index)].isReportedDuplicate, notifications.takeRoom() {
            notify(token, subtype: .reminder, now: now)
        }
        notifications.due.add(
            .reminder(tokenIndex: index),
            due: due.later(by: NotificationBook.reminderMilliseconds)
        )
    }

    /// When ``takeDeliveries(at:limit:)`` has something next, in the world's time.
    var nextNotificationDue: UnixMilliseconds? { notifications.due.firstDue }

    /// Notes the result of a delivery; a failed one is sent again when it is due.
    func noteAttempt(
        _ result: SendAttemptResult,
        notificationIndex index: Int,
        now: UnixMilliseconds
    ) {
        notifications.stored[index].attempts.append(
            StoredNotification.Attempt(at: now, result: result)
        )
        if let next = notifications.stored[index].nextAttempt {
            notifications.due.add(.attempt(notificationIndex: Int32(index)), due: next)
        }
    }
}

extension UnixMilliseconds {
    /// A registered token may have any date: what lies beyond the end of time is never due.
    func later(by milliseconds: Int64) -> UnixMilliseconds {
        let (sum, overflow) = addingReportingOverflow(milliseconds)
        return overflow ? .max : sum
    }
}
