/// A body that is no `ExternalPurchaseReport` at all (S6); the sentence names the place.
struct MalformedReport: Error, Equatable {
    let sentence: String
}

enum ReportStatus: String, CaseIterable, Sendable {
    case lineItem = "LINE_ITEM"
    case noLineItem = "NO_LINE_ITEM"
    case unrecognizedToken = "UNRECOGNIZED_TOKEN"
    case duplicateToken = "DUPLICATE_TOKEN"
}

/// A report whose members have the right JSON types; whether they make sense is for the rules.
struct ReportBody: Sendable {
    var requestIdentifier: UUIDKey?
    var externalPurchaseID: String?
    var status: ReportStatus?
    /// Nil where the member is absent or null.
    var lineItems: [LineItem]?

    /// The report as the store keeps it and GET returns it: known members only.
    var json: JSONValue {
        var members: [JSONMember] = []
        members += JSONMember.present(
            "requestIdentifier",
            requestIdentifier.map { .string($0.text) }
        )
        members += JSONMember.present("externalPurchaseId", externalPurchaseID.map { .string($0) })
        members += JSONMember.present("status", status.map { .string($0.rawValue) })
        members += JSONMember.present("lineItems", lineItems.map { .array($0.map(\.json)) })
        return .object(members)
    }

    init(reading bytes: [UInt8]) throws(MalformedReport) {
        let value: JSONValue
        do {
            value = try JSONValue(reading: bytes)
        } catch {
            throw MalformedReport(sentence: "no JSON, at byte \(error.byteIndex)")
        }
        guard case .object = value else { throw MalformedReport(sentence: "no JSON object") }
        let members = TypedMembers(value: value)
        if let text = try members.text("requestIdentifier") {
            guard let key = UUIDKey(text) else {
                throw MalformedReport(sentence: "requestIdentifier is no UUID")
            }
            requestIdentifier = key
        }
        externalPurchaseID = try members.text("externalPurchaseId")
        status = try members.word("status", as: ReportStatus.self)
        if let items = value["lineItems"] {
            guard let elements = items.elements else {
                throw MalformedReport(sentence: "lineItems is no array")
            }
            var lineItems: [LineItem] = []
            lineItems.reserveCapacity(elements.count)
            for element in elements { lineItems.append(try LineItem(reading: element)) }
            self.lineItems = lineItems
        }
    }
}

/// Reads members by type; a member of another type makes the whole body malformed.
struct TypedMembers {
    let value: JSONValue

    func text(_ name: String) throws(MalformedReport) -> String? {
        guard let member = value[name] else { return nil }
        guard let text = member.text else { throw wrongType(name) }
        return text
    }

    func integer(_ name: String) throws(MalformedReport) -> Int64? {
        guard let member = value[name] else { return nil }
        guard let integer = member.integer else { throw wrongType(name) }
        return integer
    }

    func flag(_ name: String) throws(MalformedReport) -> Bool? {
        guard let member = value[name] else { return nil }
        guard let flag = member.flag else { throw wrongType(name) }
        return flag
    }

    /// A number in plain decimals, as its literal.
    func decimal(_ name: String) throws(MalformedReport) -> String? {
        guard let member = value[name] else { return nil }
        guard case .number(let literal) = member,
            !literal.contains(where: { $0 == "e" || $0 == "E" })
        else { throw wrongType(name) }
        return literal
    }

    func word<Word: RawRepresentable<String>>(
        _ name: String,
        as type: Word.Type
    ) throws(MalformedReport) -> Word? {
        guard let text = try text(name) else { return nil }
        guard let word = Word(rawValue: text) else {
            throw MalformedReport(sentence: "\(name) is no known word")
        }
        return word
    }

    private func wrongType(_ name: String) -> MalformedReport {
        MalformedReport(sentence: "\(name) has the wrong type")
    }
}
