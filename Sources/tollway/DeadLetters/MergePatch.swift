internal import TokenWire

/// A JSON merge patch (RFC 7396) that leaves what it does not name as it stands, byte for byte: the
/// order of members, blanks inside them, and numbers as they were written.
struct MergePatch: Equatable {
    indirect enum Change: Equatable {
        case remove
        /// JSON as it was given.
        case set([UInt8])
        case merge(MergePatch)
    }

    struct Member: Equatable {
        var name: String
        var change: Change
    }

    /// As given, for the audit.
    let text: [UInt8]
    private var members: [Member] = []

    /// - Throws: where the text is no JSON object.
    init(_ text: [UInt8]) throws(WireFault) {
        self.text = text
        members = try JSONScanner.scan(text.span) { (scanner) throws(WireFault) in
            try scanner.beginObject()
            var members: [Member] = []
            while let name = try scanner.nextName() {
                let change: Change
                if try scanner.takeNull() {
                    change = .remove
                } else if try scanner.peekKind() == .object {
                    change = .merge(try MergePatch(try scanner.raw()))
                } else {
                    change = .set(try scanner.raw())
                }
                members.removeAll { $0.name == name }
                members.append(Member(name: name, change: change))
            }
            return members
        }
    }

    /// The value after the patch.
    ///
    /// - Throws: where the value is no JSON object.
    func apply(to value: [UInt8]) throws(WireFault) -> [UInt8] {
        var writer = JSONWriter()
        try JSONScanner.scan(value.span) { (scanner) throws(WireFault) in
            try apply(&scanner, &writer)
        }
        return writer.bytes
    }

    private func apply(
        _ scanner: inout JSONScanner,
        _ writer: inout JSONWriter
    ) throws(WireFault) {
        var isDone = Set<String>()
        try scanner.beginObject()
        writer.beginObject()
        while let name = try scanner.nextName() {
            let raw = try scanner.raw()
            guard let member = members.first(where: { $0.name == name }) else {
                writer.name(text: name)
                writer.raw(raw)
                continue
            }
            // A member that stands there twice is one afterwards.
            guard isDone.insert(name).inserted else {
                continue
            }
            switch member.change {
            case .remove: break
            case .set(let json):
                writer.name(text: name)
                writer.raw(json)
            case .merge(let patch):
                writer.name(text: name)
                let isObject = raw.first == UInt8(ascii: "{")
                writer.raw(try patch.apply(to: isObject ? raw : Self.emptyObject))
            }
        }
        for member in members where !isDone.contains(member.name) {
            switch member.change {
            case .remove: break
            case .set(let json):
                writer.name(text: member.name)
                writer.raw(json)
            case .merge(let patch):
                writer.name(text: member.name)
                writer.raw(try patch.apply(to: Self.emptyObject))
            }
        }
        writer.endObject()
    }

    private static let emptyObject = Array("{}".utf8)
}
