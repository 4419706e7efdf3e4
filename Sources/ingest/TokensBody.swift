internal import Kafka
internal import TokenDomain
internal import TokenWire

/// Makes records of `tokens.received` from the body of `POST /v1/tokens`.
///
/// Only size and shape are looked at: what a token says is decode's business. The token's JSON
/// string goes from the body into the record as it stands, without a copy in between.
struct TokensBody {
    private let receivedAt: Timestamp
    private let requestID: String
    private let pseudonyms: CustomerPseudonyms?
    /// The end of every record of the request, as ``TokenReceived`` writes it: put into bytes once
    /// and not for every line.
    private let recordEnd: [UInt8]

    /// `receivedAt` and `requestID` are carried by every record of the request; without `pseudonyms` a
    /// customer is refused.
    init(receivedAt: Timestamp, requestID: String, pseudonyms: CustomerPseudonyms?) {
        self.receivedAt = receivedAt
        self.requestID = requestID
        self.pseudonyms = pseudonyms
        var writer = JSONWriter()
        writer.field("receivedAt", receivedAt.milliseconds)
        writer.field("source", TokenReceived.Source.app.rawValue)
        writer.field("requestId", requestID)
        recordEnd = [UInt8(ascii: ",")] + writer.bytes + [UInt8(ascii: "}")]
    }

    /// One token as an object of its own.
    func appendOne(_ body: [UInt8], to outputs: inout OutputBatch) throws(Problem) {
        try append(body, body.indices, to: &outputs)
    }

    /// One object a line; all of them, or none.
    ///
    /// - Returns: how many records it made; at least one.
    func appendLines(_ body: [UInt8], to outputs: inout OutputBatch) throws(Problem) -> Int {
        try BodyLines.read(body) { (line) throws(Problem) in
            try append(body, line, to: &outputs)
        }
    }

    /// The members of one object, where they lie.
    private struct Members {
        /// The JSON string, its quotes included.
        var token: Range<Int>?
        var url: [UInt8]?
        var customer: [UInt8]?
    }

    /// One object, which is mostly a token and nothing else.
    private func append(
        _ body: [UInt8],
        _ range: Range<Int>,
        to outputs: inout OutputBatch
    ) throws(Problem) {
        let object = body.span.extracting(range)
        if let text = PlainMember.text(after: "{\"token\":\"", of: object) {
            try refuseLarge(text.count)
            let start = outputs.arena.count
            // The record begins as the object does.
            _ = outputs.place(object.extracting(...text.upperBound))
            outputs.arena.append(contentsOf: recordEnd)
            appendRecord(from: start, key: .absent, to: &outputs)
            return
        }
        let members: Members
        do throws(WireFault) {
            members = try read(object)
        } catch {
            throw Problem(error)
        }
        let key = try placeCustomer(members.customer, in: &outputs)
        let start = outputs.arena.count
        switch (members.token, members.url) {
        case (let token?, nil):
            try refuseLarge(token.count - 2)
            write(object.extracting(token), customer: key, to: &outputs.arena)
        case (nil, let url?):
            try writeLink(url, customer: key, to: &outputs)
        case (nil, nil):
            throw Problem(.missing(field: "token"))
        case (_?, _?):
            throw Problem(
                status: 400,
                code: "ingest.both",
                detail: "There are a token and a url; one of them is the token."
            )
        }
        appendRecord(from: start, key: key, to: &outputs)
    }

    private func refuseLarge(_ tokenByteCount: Int) throws(Problem) {
        guard tokenByteCount <= IngestLimits.tokenByteCountMax else {
            throw tooLarge("token", IngestLimits.tokenByteCountMax)
        }
    }

    /// The record whose value was written to the arena from `start` on.
    private func appendRecord(from start: Int, key: ByteRange, to outputs: inout OutputBatch) {
        outputs.outputs.append(
            OutputBatch.Output(
                topic: Route.tokens.topic,
                timestampMilliseconds: receivedAt.milliseconds,
                key: key,
                value: outputs.placed(from: start)
            )
        )
    }

    private func read(_ object: Span<UInt8>) throws(WireFault) -> Members {
        var members = Members()
        try JSONScanner.scanObject(object) { (key, scanner) throws(WireFault) in
            switch key {
            case "token":
                guard members.token == nil else {
                    throw .repeated(field: "token")
                }
                guard !(try scanner.takeNull()) else {
                    return
                }
                guard try scanner.peekKind() == .string else {
                    throw .wrongType(field: "token")
                }
                let start = scanner.position
                try scanner.skip()
                members.token = start..<scanner.position
            case "url": try fill(&members.url, "url", &scanner)
            case "customer": try fill(&members.customer, "customer", &scanner)
            default: try scanner.skip()
            }
        }
        return members
    }

    private func fill(
        _ slot: inout [UInt8]?,
        _ field: String,
        _ scanner: inout JSONScanner
    ) throws(WireFault) {
        guard slot == nil else {
            throw .repeated(field: field)
        }
        guard !(try scanner.takeNull()) else {
            return
        }
        slot = try scanner.stringBytes()
    }

    /// Puts the customer's pseudonym into the arena: it is the record's key.
    private func placeCustomer(
        _ customer: [UInt8]?,
        in outputs: inout OutputBatch
    ) throws(Problem) -> ByteRange {
        guard let customer else {
            return .absent
        }
        guard let pseudonyms else {
            throw .customerRefused
        }
        guard !customer.isEmpty else {
            throw Problem(.outOfRange(field: "customer"))
        }
        guard customer.count <= PurchaseRules.customerByteCountMax else {
            throw tooLarge("customer", PurchaseRules.customerByteCountMax)
        }
        let start = outputs.arena.count
        pseudonyms.append(of: customer, to: &outputs.arena)
        return outputs.placed(from: start)
    }

    /// As ``TokenReceived`` writes it, from a JSON string that is one already.
    private func write(_ token: Span<UInt8>, customer: ByteRange, to arena: inout [UInt8]) {
        arena.append(contentsOf: Self.tokenName)
        unsafe token.withUnsafeBufferPointer { unsafe arena.append(contentsOf: $0) }
        if !customer.isAbsent {
            // Nothing in a pseudonym is ever escaped.
            arena.append(contentsOf: Self.customerName)
            arena.append(contentsOf: Array(arena[customer.indices]))
            arena.append(UInt8(ascii: "\""))
        }
        arena.append(contentsOf: recordEnd)
    }

    private static let tokenName = Array("{\"token\":".utf8)
    private static let customerName = Array(",\"customer\":\"".utf8)

    private func writeLink(
        _ url: [UInt8],
        customer: ByteRange,
        to outputs: inout OutputBatch
    ) throws(Problem) {
        guard url.count <= IngestLimits.linkByteCountMax else {
            throw tooLarge("url", IngestLimits.linkByteCountMax)
        }
        let link: TokenLink
        do throws(DecodeFault) {
            link = try TokenLink(reading: url.span)
        } catch {
            var detail = error.message
            if case .badEnvelope(let reason) = error {
                detail = "The field \"url\" cannot be read: \(reason)."
            }
            throw Problem(status: 400, code: "ingest.bad_link", detail: detail)
        }
        let sealed =
            customer.isAbsent
            ? nil : CustomerID(String(decoding: outputs.arena[customer.indices], as: UTF8.self))
        TokenReceived(
            token: link.token,
            customer: sealed,
            receivedAt: receivedAt,
            source: .link,
            bundleID: link.bundleID,
            requestID: requestID
        ).write(to: &outputs.arena)
    }

    private func tooLarge(_ field: String, _ byteCountMax: Int) -> Problem {
        Problem(
            status: 413,
            code: "ingest.too_large",
            detail: "The field \"\(field)\" has more than \(byteCountMax) bytes."
        )
    }
}
