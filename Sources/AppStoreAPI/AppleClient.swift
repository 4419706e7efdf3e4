package import TokenDomain

/// One request to Apple, unsigned: whoever sends it signs it.
package struct AppleRequest: Sendable {
    package enum Action: Sendable {
        case sendReport(ReportRequestBody)
        /// What was sent under the identifier: the answer is compared with it.
        case retrieveReport(requestIdentifier: String, sent: ReportRequestBody)
        case setAccountToken(String, originalTransactionID: String)
    }

    /// The caller's own; comes back with the answer.
    package var tag: UInt64
    /// Whose key signs, and which host is asked.
    package var lane: Lane
    package var action: Action
    /// The header `traceparent`, where there is one.
    package var trace: TraceParent?

    package init(tag: UInt64, lane: Lane, action: Action, trace: TraceParent? = nil) {
        self.tag = tag
        self.lane = lane
        self.action = action
        self.trace = trace
    }
}

/// Apple as `report` sees it: submit, and collect what came back.
///
/// One thread calls it; it never blocks and never retries.
package protocol AppleClient: AnyObject {
    /// Sends a request; exactly one answer will be collected for it, unless it is abandoned.
    func submit(_ request: AppleRequest, now: Timestamp)
    /// What came back since the last call.
    func collect(now: Timestamp) -> [(tag: UInt64, reply: AppleReply)]
    /// No answer is wanted any more. What was sent stays sent.
    func abandon(tag: UInt64)
    /// Reads the key of an app again: it may have been replaced.
    func reloadKey(appAppleID: Int64)
    /// Signs with the app's first key again, though Apple refused it before.
    func startWithFirstKey(appAppleID: Int64)
    /// Becomes readable when something came back; -1 where there is none.
    var wakeDescriptor: Int32 { get }
    /// When something will come back that no descriptor announces; nil where nothing will.
    var nextAnswer: Timestamp? { get }
}
