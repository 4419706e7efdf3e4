internal import TokenDomain

/// The member `requests` of an intent and of the ledger.
extension ReportExchange {
    static func list(_ scanner: inout JSONScanner) throws(WireFault) -> [ReportExchange] {
        var list: [ReportExchange] = []
        try scanner.beginArray()
        while try scanner.nextElement() {
            list.append(try ReportExchange(&scanner))
        }
        return list
    }

    /// Writes the member; an empty list is not written.
    static func write(_ list: [ReportExchange], _ writer: inout JSONWriter) {
        guard !list.isEmpty else {
            return
        }
        writer.name("requests")
        writer.beginArray()
        for exchange in list {
            writer.beginObject()
            writer.field("method", exchange.request.method)
            writer.field("sentAt", exchange.sentAt.milliseconds)
            writer.field("answeredAt", exchange.answeredAt.milliseconds)
            writer.field("httpStatus", exchange.httpStatus)
            writer.field("errorCode", exchange.errorCode)
            writer.endObject()
        }
        writer.endArray()
    }

    private init(_ scanner: inout JSONScanner) throws(WireFault) {
        var method: String?
        var sentAt: Timestamp?
        var answeredAt: Timestamp?
        var httpStatus: Int?
        var errorCode: Int64?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "method": try scanner.fill(&method)
            case "sentAt": try scanner.fill(&sentAt)
            case "answeredAt": try scanner.fill(&answeredAt)
            case "httpStatus": try scanner.fill(&httpStatus)
            case "errorCode": try scanner.fill(&errorCode)
            default: try scanner.skip()
            }
        }
        self.init(
            request: method == ReportRequest.retrieve.method ? .retrieve : .send,
            sentAt: try JSONScanner.require(sentAt, "sentAt"),
            answeredAt: try JSONScanner.require(answeredAt, "answeredAt"),
            httpStatus: try JSONScanner.require(httpStatus, "httpStatus"),
            errorCode: errorCode
        )
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
