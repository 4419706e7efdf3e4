/// What can go wrong at Apple's side, or on the way to and from it (S15).
package enum FaultKind: String, CaseIterable, Sendable {
    /// 500 with code 5000000.
    case serverError = "500"
    /// 500 with code 5000001, which asks for a retry.
    case serverErrorRetryable = "500-retryable"
    case serverErrorEmpty = "500-empty"
    case unavailable = "503"
    case rateLimit = "429"
    case rateLimitNoHeader = "429-no-header"
    /// 429 with neither `Retry-After` nor body.
    case rateLimitBare = "429-bare"
    case unauthenticated = "401"
    /// 404 with code 4040006, for account tokens.
    case notFoundRetryable = "404-retryable"
    /// Code 26: another report of the same data is under way (S11).
    case simultaneous = "26"
    /// The connection is reset and nothing was processed.
    case resetBefore = "reset-before"
    /// The request is processed, its answer lost: the next identical PUT gets S4.
    case resetAfter = "reset-after"
    /// Processed; half of the answer arrives, then the connection is reset.
    case torn = "torn"
    /// Processed at once, answered late.
    case slow = "slow"
}

/// One fault and the requests it applies to.
///
/// Text form: `KIND[:NAME=VALUE[,NAME=VALUE…]]`, such as `429:every=50,retry-after=2s`.
package struct FaultRule: Equatable, Sendable {
    package var kind: FaultKind
    /// Empty: reports only.
    package var endpoints: Set<AppleEndpoint> = []
    package var environment: StoreEnvironment?
    package var bundleID: String?
    package var externalPurchaseID: String?
    /// Every so-manieth matching request; nil: each.
    package var every: Int?
    /// Chance of each matching request, 0…1; nil: certain.
    package var probability: Double?
    package var seed: UInt64 = 1
    /// So many matching requests pass first.
    package var after = 0
    /// It strikes at most so often; nil: for ever.
    package var times: Int?
    /// From now to the time in `Retry-After`.
    package var retryAfterMilliseconds: Int64 = 1000
    /// How late a slow answer is.
    package var delayMilliseconds: Int64 = 1000

    package init(kind: FaultKind) {
        self.kind = kind
    }
}

/// Why a fault could not be read.
package enum FaultRuleFault: Error, Equatable, Sendable, CustomStringConvertible {
    case unknownKind(String)
    case unknownName(String)
    case badValue(name: String, value: String)
    /// Only a report says which token it is about.
    case tokenWithoutReports(String)

    package var description: String {
        switch self {
        case .unknownKind(let kind):
            let kinds = FaultKind.allCases.map(\.rawValue).joined(separator: " ")
            return "unknown fault \"\(kind)\"; there are: \(kinds)"
        case .unknownName(let name):
            return
                "unknown fault setting \"\(name)\"; there are: every probability seed after times "
                + "on environment app token retry-after for"
        case .badValue(let name, let value):
            return "fault setting \(name)=\(value) cannot be read"
        case .tokenWithoutReports(let token):
            return
                "fault setting token=\(token) never applies: only a report names a token, so it goes "
                + "with on=report or on=any"
        }
    }
}

extension FaultRule {
    package init(_ text: String) throws(FaultRuleFault) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let kind = FaultKind(rawValue: String(first)) else {
            throw .unknownKind(parts.first.map(String.init) ?? "")
        }
        self.init(kind: kind)
        guard parts.count == 2 else { return }
        for setting in parts[1].split(separator: ",") {
            let pair = setting.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2 else { throw .badValue(name: String(setting), value: "") }
            try set(pair[0], pair[1])
        }
        if let externalPurchaseID, !endpoints.isEmpty, !endpoints.contains(.report) {
            throw .tokenWithoutReports(externalPurchaseID)
        }
    }

    private mutating func set(_ name: String, _ value: String) throws(FaultRuleFault) {
        func require<Value>(_ read: Value?) throws(FaultRuleFault) -> Value {
            guard let read else { throw .badValue(name: name, value: value) }
            return read
        }
        switch name {
        case "every": every = try require(Int(value).flatMap { $0 >= 1 ? $0 : nil })
        case "probability":
            probability = try require(Double(value).flatMap { (0...1).contains($0) ? $0 : nil })
        case "seed": seed = try require(UInt64(value))
        case "after": after = try require(Int(value).flatMap { $0 >= 0 ? $0 : nil })
        case "times": times = try require(Int(value).flatMap { $0 >= 0 ? $0 : nil })
        case "on":
            endpoints =
                value == "any"
                ? Set(AppleEndpoint.allCases) : [try require(AppleEndpoint(rawValue: value))]
        case "environment": environment = try require(StoreEnvironment(rawValue: value))
        case "app": bundleID = value
        case "token": externalPurchaseID = value
        case "retry-after": retryAfterMilliseconds = try require(durationMilliseconds(value))
        case "for": delayMilliseconds = try require(durationMilliseconds(value))
        default: throw .unknownName(name)
        }
    }

    package var text: String {
        var settings: [String] = []
        if let every { settings.append("every=\(every)") }
        if let probability { settings.append("probability=\(probability),seed=\(seed)") }
        if after > 0 { settings.append("after=\(after)") }
        if let times { settings.append("times=\(times)") }
        if endpoints.count == 1, let endpoint = endpoints.first {
            settings.append("on=\(endpoint.rawValue)")
        } else if !endpoints.isEmpty {
            settings.append("on=any")
        }
        if let environment { settings.append("environment=\(environment.rawValue)") }
        if let bundleID { settings.append("app=\(bundleID)") }
        if let externalPurchaseID { settings.append("token=\(externalPurchaseID)") }
        if kind == .rateLimit { settings.append("retry-after=\(retryAfterMilliseconds)ms") }
        if kind == .slow { settings.append("for=\(delayMilliseconds)ms") }
        return settings.isEmpty
            ? kind.rawValue : "\(kind.rawValue):\(settings.joined(separator: ","))"
    }
}

/// Reads `300ms`, `2s`, `15m`, `24h`, `10d`; nil for anything else, at most 3,650 days.
func durationMilliseconds(_ text: String) -> Int64? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    let factors: [String: Int64] = [
        "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000,
    ]
    guard let count = Int64(digits), let factor = factors[String(text[digits.endIndex...])],
        count <= 3650 * 86_400_000 / factor
    else { return nil }
    return count * factor
}
