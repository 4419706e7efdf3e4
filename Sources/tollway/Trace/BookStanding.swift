internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Where a sale stands in the book of `purchases`, as far as a person wants to know: from a value of
/// `purchases.state.v1`, whose form is the worker's own.
struct BookStanding: Equatable {
    /// What it waits for: `token`, `rate`, `reference`, `base`, `turn`, `queued`, `sent`, `now`,
    /// `reopening`, `idle`.
    var wait = "idle"
    /// The record that it waits for, where that is another sale's or its own.
    var key: TracedBookKey?
    /// Until when it waits at most, UNIX milliseconds.
    var until: Int64?
    /// The token that it waits to be reported under.
    var externalPurchaseID: String?
    /// UNIX milliseconds.
    var waitingSince: Int64?

    var isHeld: Bool { wait != "idle" && wait != "reopening" }

    /// Nil for what is no such value.
    init?(_ value: Span<UInt8>) {
        var standing = BookStanding()
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                switch (key, try scanner.peekKind()) {
                case ("wait", .object): try standing.readWait(&scanner)
                case ("waitingSince", .number): standing.waitingSince = try scanner.integer()
                default: try scanner.skip()
                }
            }
        } catch {
            return nil
        }
        self = standing
    }

    private init() {}

    private mutating func readWait(_ scanner: inout JSONScanner) throws(WireFault) {
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch (key, try scanner.peekKind()) {
            case ("for", .string): wait = try scanner.string()
            case ("key", .string): self.key = try Self.key(&scanner)
            case ("until", .number): until = try scanner.integer()
            case ("externalPurchaseId", .string): externalPurchaseID = try scanner.string()
            default: try scanner.skip()
            }
        }
    }

    private static func key(_ scanner: inout JSONScanner) throws(WireFault) -> TracedBookKey? {
        let text = try scanner.string()
        do throws(Base64Fault) {
            return TracedBookKey(try Base64URL.decodeStrict(text.utf8.span))
        } catch {
            // Of another version: then the words say less.
            return nil
        }
    }

    /// The last word of each lane in records of one sale.
    static func newest(in records: [TopicReader.Found]) -> [Lane: BookStanding] {
        var standings: [Lane: BookStanding] = [:]
        for record in records {
            if let lane = TracedBookKey(record.key)?.lane {
                // A tombstone: it was forgotten.
                standings[lane] = record.value.isEmpty ? nil : BookStanding(record.value.span)
            }
        }
        return standings
    }

    /// Whether a key of the changelog is that of this line item: an `i`, whose it is, the app, and
    /// the id at the end.
    static func isKey(_ key: Span<UInt8>, of lineItemID: String, _ purchaseKey: String) -> Bool {
        let id = Array(lineItemID.utf8)
        // Behind the kind and the length of the purchase key: that, and environment and app.
        guard key.count == 3 + purchaseKey.utf8.count + 9 + id.count,
            key[0] == UInt8(ascii: "i")
        else {
            return false
        }
        for (index, byte) in purchaseKey.utf8.enumerated() where key[3 + index] != byte {
            return false
        }
        for (index, byte) in id.enumerated() where key[key.count - id.count + index] != byte {
            return false
        }
        return true
    }
}
