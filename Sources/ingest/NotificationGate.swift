internal import AppStoreAPI
internal import Crypto
internal import HTTPServer
internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Judges notifications before anything of them is stored.
///
/// Apple has no key of ours, so whoever knows the address can send. What is not Apple's is refused
/// and costs no more than it must: its form first, then the names in its certificates, then, where
/// the chain is known, one cheap signature. Only a new chain waits in line.
struct NotificationGate {
    /// What holders of many genuine notifications, of many apps, could store by sending them.
    static let storedBytesPerSecond = 8 << 20
    static let storedBytesBurst = 16 << 20
    /// What the holder of a few could, over and over, until the broker has them: it takes nothing
    /// from what is sent once.
    static let repeatedBytesPerSecond = 512 << 10
    static let repeatedBytesBurst = 1 << 20

    /// A genuine notification that is let in.
    struct Admitted: Equatable {
        /// For ``NotificationGate/noteStored(_:)``, once its record has the broker's receipt.
        var identity: UInt64
        /// The broker has an earlier copy, so there is no record of this one.
        var isStored: Bool
    }

    private var verifier: SignedDataVerifier
    /// Nil: anybody may send.
    private let sources: AddressRanges?
    private var storedBytes: RateLimit
    private var repeatedBytes: RateLimit
    private var appBytes = AppRateLimits()
    private var recent: RecentNotifications
    var line: NotificationLine

    /// `now` is monotonic milliseconds.
    init(roots: TrustedRoots, sources: AddressRanges?, now: Int64) {
        verifier = SignedDataVerifier(roots: roots)
        self.sources = sources
        storedBytes = RateLimit(
            perSecond: Double(Self.storedBytesPerSecond),
            burst: Double(Self.storedBytesBurst),
            now: now
        )
        repeatedBytes = RateLimit(
            perSecond: Double(Self.repeatedBytesPerSecond),
            burst: Double(Self.repeatedBytesBurst),
            now: now
        )
        recent = RecentNotifications(now: now)
        line = NotificationLine(now: now)
    }

    /// From now on these roots decide; what was genuine under others must prove itself again.
    ///
    /// Where they are the same, the chains that are known stay so: behind a flood of forgeries a new
    /// start is dear.
    mutating func trust(_ roots: TrustedRoots) {
        guard !roots.areThose(of: verifier.roots) else {
            return
        }
        verifier = SignedDataVerifier(roots: roots)
    }

    /// - Throws: 403 where the peer is none of those that may send.
    func checkSource(_ request: HTTPRequest) throws(Problem) {
        guard sources?.contains(request.remoteAddress) ?? true else {
            throw Problem(
                status: 403,
                code: "ingest.foreign_source",
                detail: "Notifications are not taken in from this address."
            )
        }
    }

    /// Appends the record of a genuine notification, unless the broker has a copy.
    ///
    /// `isTurn`: it comes out of the line. `now` is monotonic milliseconds.
    ///
    /// - Returns: nil where the notification waits in line.
    /// - Throws: 400 where it is not genuine, 429 where there is no room for it.
    mutating func append(
        _ request: HTTPRequest,
        isTurn: Bool,
        now: Int64,
        receivedAt: Timestamp,
        to outputs: inout OutputBatch
    ) throws(Problem) -> Admitted? {
        let signedPayload = try Self.signedPayload(in: request.body)
        let candidate = try genuine(signedPayload.utf8.span, isTurn: isTurn, receivedAt: receivedAt)
        guard let candidate else {
            try line.add(request)
            return nil
        }
        let copies = recent.copies(of: candidate.identity, now: now)
        guard copies != .stored else {
            return Admitted(identity: candidate.identity, isStored: true)
        }
        let isRepeat = copies != nil
        guard take(signedPayload.utf8.count, of: candidate, isRepeat: isRepeat, now: now) else {
            throw .tooManyRequests
        }
        let start = outputs.arena.count
        NotificationReceived(signedPayload: signedPayload, receivedAt: receivedAt)
            .write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: Route.notifications.topic,
                timestampMilliseconds: receivedAt.milliseconds,
                key: .absent,
                value: outputs.placed(from: start)
            )
        )
        return Admitted(identity: candidate.identity, isStored: false)
    }

    /// The record of a notification has the broker's receipt: from now on no repeat is stored.
    mutating func noteStored(_ notification: Admitted) {
        recent.noteStored(notification.identity)
    }

    /// Whether so many bytes may be stored now.
    private mutating func take(
        _ byteCount: Int,
        of candidate: SignedDataVerifier.Candidate,
        isRepeat: Bool,
        now: Int64
    ) -> Bool {
        guard !isRepeat else {
            return repeatedBytes.take(byteCount, now: now)
        }
        // No share is charged for what there is no room for.
        guard storedBytes.milliseconds(until: byteCount, now: now) == 0 else {
            return false
        }
        // Half of the burst is for apps that are within their share. What takes nothing from that
        // half is charged to no share, so all shares together are never more than what is left.
        let isMuchLeft =
            storedBytes.milliseconds(until: Self.storedBytesBurst / 2 + byteCount, now: now) == 0
        guard isMuchLeft || appBytes.take(byteCount, of: candidate.bundleIDs, now: now),
            storedBytes.take(byteCount, now: now)
        else {
            return false
        }
        recent.insert(candidate.identity, now: now)
        return true
    }

    /// - Returns: nil where it is too dear to find out now whether it is genuine.
    private func genuine(
        _ text: Span<UInt8>,
        isTurn: Bool,
        receivedAt: Timestamp
    ) throws(Problem) -> SignedDataVerifier.Candidate? {
        do throws(JWSFault) {
            let candidate = try verifier.read(text, now: receivedAt)
            guard candidate.isChainKnown || isTurn else {
                return nil
            }
            try verifier.check(candidate, text)
            // Last, so that a forgery is refused as one.
            guard candidate.isNotification else {
                throw .noNotification
            }
            return candidate
        } catch {
            throw Problem(
                status: 400,
                code: error.code,
                detail: "The field \"signedPayload\" is not genuine: \(error.message)."
            )
        }
    }

    private static func signedPayload(in body: [UInt8]) throws(Problem) -> String {
        let signedPayload: String
        do throws(WireFault) {
            var text: String?
            try JSONScanner.scanObject(body.span) { (key, scanner) throws(WireFault) in
                switch key {
                case "signedPayload": try scanner.fill(&text)
                default: try scanner.skip()
                }
            }
            signedPayload = try JSONScanner.require(text, "signedPayload")
        } catch {
            throw Problem(error)
        }
        try SignedText.checkSize(signedPayload, field: "signedPayload")
        return signedPayload
    }
}
