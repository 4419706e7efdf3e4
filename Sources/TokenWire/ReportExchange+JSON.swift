package import TokenDomain

/// An element of `requests`, of an intent and of the ledger.
extension ReportExchange: WireMessage {
    package static let blank = ReportExchange(
        request: .send,
        sentAt: .blank,
        answeredAt: .blank,
        httpStatus: 0,
        errorCode: nil
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        var method = request.method
        coder.member("method", &method)
        request = method == ReportRequest.retrieve.method ? .retrieve : .send
        coder.member("sentAt", &sentAt)
        coder.member("answeredAt", &answeredAt)
        coder.member("httpStatus", &httpStatus)
        coder.member("errorCode", &errorCode)
    }
}

extension ReportRequest {
    /// Of HTTP.
    package var method: String {
        switch self {
        case .send: "PUT"
        case .retrieve, .search: "GET"
        }
    }
}
