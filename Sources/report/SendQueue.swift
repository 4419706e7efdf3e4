internal import TokenDomain

/// What shares a rate limiter and a circuit breaker: one endpoint of Apple's for one app in one
/// environment.
struct SendQueue: Hashable {
    enum Endpoint: UInt8 {
        case reports = 0
        case accountTokens = 1
    }

    var endpoint: Endpoint
    var lane: Lane

    static func reports(of lane: Lane) -> SendQueue {
        SendQueue(endpoint: .reports, lane: lane)
    }
}
