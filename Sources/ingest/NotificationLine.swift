internal import HTTPServer
internal import StageRuntime

/// Notifications under a new chain of certificates: they wait in a queue with a rate limiter.
///
/// To validate a chain costs ten times what a notification under a known one costs, and a forger can
/// send a new one each time. So chains are validated at a bounded rate, in the order in which they
/// came, and all else is judged at once. The line is bounded in bytes; where it is full the largest
/// is dropped, and then one of the network that has most in it, not the newcomer: one of usual size
/// waits three seconds at most, and a peer in another network cannot displace it. Where the line is full of
/// one each of so many networks, a newcomer is refused; and where all come from a proxy's address, a forger and Apple are one peer, and only the proxy can tell them apart.
struct NotificationLine {
    /// Of all that wait together; one counts at least ``slotByteCount``, more than Apple's need.
    static let byteCountMax = 8 << 20
    /// So 256 wait at most, a quarter of the connections that the door has.
    ///
    /// One that waits holds its connection. As many may hold an incomplete one, and half stay open to
    /// tokens and sales.
    static let slotByteCount = 32 << 10
    /// What a chain costs, as bytes of the rate.
    static let chainByteCount = 16 << 10
    static let bytesPerSecond = 4 << 20
    /// At most so many requests are verified between two polls of the sockets.
    static let turnCountMax = 4

    private struct Place {
        var request: HTTPRequest
        /// By ``NumericAddress/network(of:)``.
        var network: [UInt8]

        var room: Int { max(request.body.count, NotificationLine.slotByteCount) }
    }

    private var waiting: [Place] = []
    private var byteCount = 0
    private var rate: RateLimit
    private var displaced: [HTTPRequest.ID] = []

    /// `now` is monotonic milliseconds.
    init(now: Int64) {
        rate = RateLimit(
            perSecond: Double(Self.bytesPerSecond),
            burst: Double(Self.bytesPerSecond),
            now: now
        )
    }

    var count: Int { waiting.count }

    /// Puts one at the end.
    ///
    /// - Throws: 429 where the line is full and none in it may be dropped.
    mutating func add(_ request: HTTPRequest) throws(Problem) {
        let place = Place(
            request: request,
            network: NumericAddress.network(of: request.remoteAddress)
        )
        while byteCount + place.room > Self.byteCountMax {
            guard let index = indexThatGivesWay(to: place) else {
                throw .tooManyRequests
            }
            displaced.append(waiting[index].request.id)
            remove(at: index)
        }
        byteCount += place.room
        waiting.append(place)
    }

    /// The largest, where it is larger than the newcomer; else the last of the network that has most
    /// in the line, where the newcomer's has less: who hangs up leaves what it sent behind, so the
    /// number of connections alone does not bound what one peer has here.
    private func indexThatGivesWay(to newcomer: Place) -> Int? {
        let largest = waiting.indices.max { waiting[$0].room < waiting[$1].room }
        if let largest, waiting[largest].room > newcomer.room {
            return largest
        }
        var counts: [[UInt8]: Int] = [:]
        for place in waiting {
            counts[place.network, default: 0] += 1
        }
        let greediest = counts.max { $0.value < $1.value }
        guard let greediest, greediest.value > counts[newcomer.network, default: 0] + 1 else {
            return nil
        }
        return waiting.lastIndex { $0.network == greediest.key }
    }

    /// The next one, if the rate allows it.
    mutating func takeTurn(now: Int64) -> HTTPRequest? {
        guard let first = waiting.first?.request,
            rate.take(Self.chainByteCount + first.body.count, now: now)
        else {
            return nil
        }
        remove(at: 0)
        return first
    }

    /// Milliseconds until the next may be verified; nil where none waits.
    mutating func millisecondsUntilTurn(now: Int64) -> Int64? {
        waiting.first.map { first in
            rate.milliseconds(until: Self.chainByteCount + first.request.body.count, now: now)
        }
    }

    /// Those dropped since the last call.
    mutating func takeDisplaced() -> [HTTPRequest.ID] {
        defer { displaced = [] }
        return displaced
    }

    /// Everybody, at the end.
    mutating func takeAll() -> [HTTPRequest.ID] {
        defer { (waiting, byteCount) = ([], 0) }
        return takeDisplaced() + waiting.map(\.request.id)
    }

    private mutating func remove(at index: Int) {
        byteCount -= waiting[index].room
        waiting.remove(at: index)
    }
}
