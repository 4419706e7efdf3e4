/// Get Notification History and the two calls about test notifications (S19, section 3.5).
extension AppleWorld {
    private static let historyPageSize = 20
    private static let historyMilliseconds: Int64 = 180 * 86_400_000
    private static let knownTypes: Set<String> = ["EXTERNAL_PURCHASE_TOKEN", "TEST"]

    private struct HistoryQuery {
        var dates: ClosedRange<UnixMilliseconds>
        var type: String?
        var subtype: String?
        var onlyFailures: Bool
        /// External purchases belong to no transaction, so it finds nothing.
        var transactionID: String?
        /// Index of the first stored notification to look at.
        var start: Int
    }

    /// An answer that ends a request early.
    private struct HistoryRefusal: Error {
        let answer: AppleAnswer

        init(_ code: Int, _ message: String) {
            answer = .error(400, code: code, "Simulated: \(message)")
        }
    }

    func notificationHistory(
        _ request: AppleRequest,
        bundleID: String,
        now: UnixMilliseconds
    ) -> AppleAnswer {
        do throws(HistoryRefusal) {
            let query = try historyQuery(request, now: now)
            return history(query, environment: request.environment, bundleID: bundleID)
        } catch {
            return error.answer
        }
    }

    private func historyQuery(
        _ request: AppleRequest,
        now: UnixMilliseconds
    ) throws(HistoryRefusal) -> HistoryQuery {
        let body: JSONValue
        do { body = try JSONValue(reading: request.body) } catch {
            throw HistoryRefusal(4_000_000, "the body is no JSON")
        }
        guard let start = body["startDate"]?.integer else {
            throw HistoryRefusal(4_000_015, "invalid startDate")
        }
        guard let end = body["endDate"]?.integer else {
            throw HistoryRefusal(4_000_016, "invalid endDate")
        }
        guard start >= now - Self.historyMilliseconds else {
            throw HistoryRefusal(4_000_012, "startDate is more than 180 days ago")
        }
        guard start <= end else { throw HistoryRefusal(4_000_013, "startDate is after endDate") }
        let type = body["notificationType"]?.text
        let transactionID = body["transactionId"]?.text
        guard type == nil || transactionID == nil else {
            throw HistoryRefusal(4_000_019, "several filters")
        }
        guard type.map(Self.knownTypes.contains) ?? (body["notificationSubtype"] == nil) else {
            throw HistoryRefusal(4_000_018, "invalid notificationType")
        }
        return HistoryQuery(
            dates: start...end,
            type: type,
            subtype: body["notificationSubtype"]?.text,
            onlyFailures: body["onlyFailures"]?.flag ?? false,
            transactionID: transactionID,
            start: try Self.start(request.query)
        )
    }

    private static func start(_ query: String) throws(HistoryRefusal) -> Int {
        guard let token = Query(query)["paginationToken"], !token.isEmpty else { return 0 }
        guard let text = Base64Text.decodeURL(token),
            let start = Int(String(decoding: text, as: UTF8.self)), start > 0
        else { throw HistoryRefusal(4_000_014, "invalid paginationToken") }
        return start
    }

    private func history(
        _ query: HistoryQuery,
        environment: StoreEnvironment,
        bundleID: String
    ) -> AppleAnswer {
        let stored = notifications.stored
        let found = stored.indices.dropFirst(query.start).lazy.filter { index in
            let notification = stored[index]
            return notification.environment == environment && notification.bundleID == bundleID
                && !notification.attempts.isEmpty && query.transactionID == nil
                && query.dates.contains(notification.signedAt)
                && query.type ?? notification.type == notification.type
                && (query.subtype == nil || query.subtype == notification.subtype)
                && !(query.onlyFailures && notification.isDelivered)
        }
        let page = Array(found.prefix(Self.historyPageSize + 1))
        let hasMore = page.count > Self.historyPageSize
        var members = [
            JSONMember(
                "notificationHistory",
                .array(page.prefix(Self.historyPageSize).map { Self.historyRecord(stored[$0]) })
            ),
            JSONMember("hasMore", .bool(hasMore)),
        ]
        // What follows by its place: a filter of failures drops what is delivered meanwhile.
        if hasMore, let following = page.last {
            let next = Array(String(following).utf8)
            members.append(JSONMember("paginationToken", .string(Base64Text.url(next))))
        }
        return .json(200, .object(members))
    }

    private static func historyRecord(_ notification: StoredNotification) -> JSONValue {
        .object([
            JSONMember("signedPayload", .string(notification.signedPayload)),
            JSONMember("sendAttempts", notification.attemptsJSON),
        ])
    }

    // MARK: Test notifications

    func requestTestNotification(
        _ environment: StoreEnvironment,
        bundleID: String,
        now: UnixMilliseconds
    ) -> AppleAnswer {
        guard let url = notifications.urlByEnvironment[environment] else {
            return .error(404, code: 4_040_007, "Simulated: no URL for notifications")
        }
        guard notifications.takeRoom() else {
            return .error(500, code: 5_000_000, "Simulated: no room for more notifications")
        }
        var data = [
            JSONMember("bundleId", .string(bundleID)),
            JSONMember("environment", .string(environment.signedName)),
        ]
        data += JSONMember.present(
            "appAppleId",
            tokens.appAppleIDByBundleID[bundleID].map { .integer($0) }
        )
        let index = store(
            type: "TEST",
            subtype: nil,
            subject: JSONMember("data", .object(data)),
            environment: environment,
            bundleID: bundleID,
            url: url,
            now: now
        )
        let token = "\(generator.nextUUID())_\(now)"
        notifications.testIndexByToken[token] = index
        return .json(200, .object([JSONMember("testNotificationToken", .string(token))]))
    }

    func testNotificationStatus(
        _ token: String,
        _ environment: StoreEnvironment,
        bundleID: String
    ) -> AppleAnswer {
        guard let index = notifications.testIndexByToken[token],
            case let notification = notifications.stored[index],
            notification.environment == environment, notification.bundleID == bundleID,
            !notification.attempts.isEmpty
        else { return .error(404, code: 4_040_008, "Simulated: test notification not found") }
        return .json(200, Self.historyRecord(notification))
    }
}
