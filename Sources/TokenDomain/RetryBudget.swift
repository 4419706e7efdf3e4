/// How many early retries a queue to Apple can afford.
///
/// Where few requests fail, each is tried again soon, by its own ``Backoff``. Where most fail, early
/// retries only load what is down: once the budget is spent, a failed request waits as after its
/// sixth failure at least, which is half a minute at most.
package struct RetryBudget: Equatable, Sendable {
    /// What a queue begins with, and the most it can save.
    package static let retryCountMax = 20.0
    /// What a request that Apple took adds: one early retry for every five.
    package static let perAccepted = 0.2
    /// The failures that a request counts at least, once the budget is spent.
    package static let failureCountSpent = 6

    private var retryCount = retryCountMax

    package init() {}

    /// Apple took a request.
    package mutating func accepted() {
        retryCount = min(retryCount + Self.perAccepted, Self.retryCountMax)
    }

    /// A request failed for the time being and will be tried again.
    package mutating func failed() {
        retryCount = max(retryCount - 1, 0)
    }

    /// The failures that the back-off of a request counts, after `failureCount` of its own.
    package func failureCount(_ failureCount: Int) -> Int {
        retryCount >= 1 ? failureCount : max(failureCount, Self.failureCountSpent)
    }
}
