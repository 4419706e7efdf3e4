internal import AppStoreAPI
internal import Crypto
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Believes a notification only after its signature, and hands on what it says about a token.
///
/// | input | output |
/// | --- | --- |
/// | `EXTERNAL_PURCHASE_TOKEN` of an app of ours | a `notifications.verified.v1` record |
/// | any other genuine type | a `notifications.other.v1` record |
/// | genuine, of an app that is not ours | dead letter `notifications.unknown_app` |
/// | not genuine | dead letter `jws.*` |
///
/// Repeats are not looked for here: `report` knows which notices it has seen.
final class NotificationsStage: ReloadingStage {
    /// Whether Apple sent it of an app of ours.
    typealias IsOurs = (NotificationReceived) -> Bool

    /// Indexes among the worker's targets.
    private static let verifiedTopic = 0
    private static let otherTopic = 1

    private let load: () throws(ConfigurationFault) -> TrustFiles
    private let log: Log?
    private let gapCounter: Counter?
    private let whole: (GapWatch.Gap, IsOurs) -> GapWatch.Gap?
    private var gaps: GapWatch
    private var verifier: SignedDataVerifier
    private var appsByID: [Int64: AppsFile.App] = [:]
    private var bundleIDs: Set<BundleID> = []

    /// Reads the apps and the roots, now and at every reload.
    ///
    /// - Parameters:
    ///   - log: logs gaps and files that cannot be read.
    ///   - gapCounter: counts gaps.
    ///   - before: what had come in before this worker began; asked once, now.
    ///   - whole: what the log says of a gap, all partitions of it; nil where it has none.
    ///   - load: reads the files.
    /// - Throws: what is wrong with the files; later only the log says so, and what was read last
    ///   stays in force.
    init(
        log: Log? = nil,
        gapCounter: Counter? = nil,
        before: (IsOurs) -> GapWatch.Before = { _ in .unknown },
        whole: @escaping (GapWatch.Gap, IsOurs) -> GapWatch.Gap? = { gap, _ in gap },
        load: @escaping () throws(ConfigurationFault) -> TrustFiles
    ) throws(ConfigurationFault) {
        self.load = load
        self.log = log
        self.gapCounter = gapCounter
        self.whole = whole
        gaps = GapWatch()
        let files = try load()
        verifier = SignedDataVerifier(roots: files.roots)
        take(files.apps)
        gaps = GapWatch(before: before(isOurs))
    }

    func reload() -> ConfigurationFault? {
        do throws(ConfigurationFault) {
            let files = try load()
            verifier = SignedDataVerifier(roots: files.roots)
            take(files.apps)
            log?.settingsWereReadAgain(files.apps)
            return nil
        } catch {
            log?.settingsCannotBeReadAgain(error)
            return error
        }
    }

    private func take(_ file: AppsFile) {
        appsByID = Dictionary(file.apps.map { ($0.appAppleID, $0) }) { first, _ in first }
        bundleIDs = Set(file.apps.map { BundleID($0.bundleID) })
    }

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        for record in batch.records {
            let value = batch.arena.span.extracting(record.value.indices)
            do throws(Fault) {
                plan.conclude(try verdict(on: value, into: &plan))
            } catch {
                plan.conclude(.deadLetter(error))
            }
        }
    }

    private func verdict(
        on value: Span<UInt8>,
        into plan: inout BatchPlan
    ) throws(Fault) -> Verdict {
        let received = try Self.received(value)
        // The door's time: what was signed without a date has the door's verdict, also in a replay.
        // A clock that was ahead says nothing of what comes in after it.
        let heardAt = min(received.receivedAt, plan.now)
        let (notification, token) = try ours(received, now: heardAt)
        if let gap = gaps.heard(at: heardAt), let left = whole(gap, isOurs) {
            tell(left)
        }
        do throws(NotificationFault) {
            if token == nil {
                let other = try notification.other(receivedAt: received.receivedAt)
                Self.write(other, into: &plan)
            } else {
                let notice = try notification.verified(receivedAt: received.receivedAt)
                Self.write(notice, into: &plan)
            }
            return .forward(outputCount: 1)
        } catch {
            throw error.fault(about: token?.id)
        }
    }

    /// Only what Apple sent of our apps shows that the door stood open to it: anybody has a genuine
    /// one of his own.
    private func isOurs(_ received: NotificationReceived) -> Bool {
        do throws(Fault) {
            _ = try ours(received, now: received.receivedAt)
            return true
        } catch {
            // Whatever is wrong with it: its own verdict says so.
            return false
        }
    }

    private func ours(
        _ received: NotificationReceived,
        now: Timestamp
    ) throws(Fault) -> (SignedNotification, TokenNotice?) {
        let notification = try verified(received, now: now)
        let token = try Self.token(of: notification)
        try checkApp(of: notification.identity, about: token?.id)
        return (notification, token)
    }

    private func tell(_ gap: GapWatch.Gap) {
        gapCounter?.add()
        let from = gap.from.map { WallClock.rfc3339(milliseconds: $0.milliseconds) }
        log?.warning(
            "no notification came in for longer than Apple tries",
            ("from", .text(from ?? "before what Kafka keeps")),
            ("to", .text(WallClock.rfc3339(milliseconds: gap.to.milliseconds))),
            ("repair", .text("tollway notifications backfill, if the door was shut meanwhile"))
        )
    }

    private static func received(_ value: Span<UInt8>) throws(Fault) -> NotificationReceived {
        do throws(WireFault) {
            return try NotificationReceived(reading: value)
        } catch {
            throw Fault(code: "notifications.bad_envelope", message: error.message)
        }
    }

    private func verified(
        _ received: NotificationReceived,
        now: Timestamp
    ) throws(Fault) -> SignedNotification {
        do throws(JWSFault) {
            return SignedNotification(try verifier.verify(received.signedPayload, now: now))
        } catch {
            throw Fault(code: error.code, message: error.message)
        }
    }

    /// A notification about a token, and the token's id where it can be read.
    private struct TokenNotice {
        var id: TokenID?
    }

    /// - Returns: nil if the notification is about something else.
    private static func token(of notification: SignedNotification) throws(Fault) -> TokenNotice? {
        guard !notification.type.isEmpty else {
            throw Fault(
                code: "notifications.missing_field",
                message: "signed by Apple, but no notification: it has no notificationType"
            )
        }
        guard notification.type == SignedNotification.externalPurchaseTokenType else {
            return nil
        }
        let id = notification.payload["externalPurchaseToken"]?["externalPurchaseId"]?.text
        return TokenNotice(id: id.map { TokenID($0) })
    }

    /// The app that a notification names must be one of ours, by both of its names.
    ///
    /// One that names none, as some types do not, is about all of them.
    private func checkApp(of identity: SignedIdentity, about id: TokenID?) throws(Fault) {
        let isKnown =
            identity.appAppleIDs.contains { appsByID[$0] != nil }
            || !identity.bundleIDs.isDisjoint(with: bundleIDs)
        guard isKnown || identity.appAppleIDs.isEmpty && identity.bundleIDs.isEmpty else {
            throw Fault(
                code: "notifications.unknown_app",
                message: "it is about an app that the configuration does not name",
                externalPurchaseID: id
            )
        }
        do throws(JWSFault) {
            for appAppleID in identity.appAppleIDs {
                let app = appsByID[appAppleID]
                let isWhole =
                    app.map { identity.bundleIDs.isSubset(of: [BundleID($0.bundleID)]) } ?? false
                guard isWhole else {
                    throw .wrongApp("its bundle id and its Apple id belong to two apps")
                }
            }
            for environment in AppleEnvironment.allCases
            where identity.worlds.contains(.apple(environment)) {
                // A section that contradicts the token's own prefix.
                try identity.check(environment: environment)
            }
        } catch {
            throw Fault(code: error.code, message: error.message, externalPurchaseID: id)
        }
    }

    private static func write(_ notice: NotificationVerified, into plan: inout BatchPlan) {
        let key = plan.outputs.place(notice.token.externalPurchaseID.text.utf8)
        plan.outputs.append(topic: verifiedTopic, key: key) { notice.write(to: &$0) }
    }
}

extension NotificationsStage {
    private static func write(_ other: NotificationOther, into plan: inout BatchPlan) {
        let key = other.notificationUUID.map { plan.outputs.place($0.utf8) } ?? .absent
        plan.outputs.append(topic: otherTopic, key: key) { other.write(to: &$0) }
    }
}

extension NotificationFault {
    fileprivate func fault(about id: TokenID?) -> Fault {
        let (code, what) =
            switch self {
            case .missing(let field): ("missing_field", "the field \"\(field)\" is missing")
            case .wrongType(let field): ("wrong_type", "the field \"\(field)\" has the wrong type")
            case .outOfRange(let field):
                ("out_of_range", "the field \"\(field)\" has a value out of range")
            }
        return Fault(
            code: "notifications.\(code)",
            message: "signed by Apple, but not as documented: \(what)",
            externalPurchaseID: id
        )
    }
}
