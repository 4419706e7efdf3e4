/// One answer of Apple to one request to set an app account token, with its meaning.
package struct AnsweredAccountToken: Equatable, Sendable {
    /// What was to be set, and the requests that had ended for it before: an answer that was already
    /// taken in is known by them.
    package var appAccountToken: String
    package var attempts: Int
    package var meaning: AccountTokenAnswer
    /// 0: there was no answer.
    package var httpStatus: Int
    package var errorCode: Int64?
    package var answeredAt: Timestamp
    /// When to try again, if it means that: chosen by ``Backoff``.
    package var retryAt: Timestamp

    package init(
        appAccountToken: String,
        attempts: Int,
        meaning: AccountTokenAnswer,
        httpStatus: Int,
        errorCode: Int64?,
        answeredAt: Timestamp,
        retryAt: Timestamp
    ) {
        self.appAccountToken = appAccountToken
        self.attempts = attempts
        self.meaning = meaning
        self.httpStatus = httpStatus
        self.errorCode = errorCode
        self.answeredAt = answeredAt
        self.retryAt = retryAt
    }
}
