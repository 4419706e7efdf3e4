internal import TokenDomain
internal import TokenWire

/// Which accepted reports stand in the ledger more than once, so that each counts once.
///
/// `report` writes one record for each; a record that was copied back by hand makes it two. All of
/// one token should lie in one partition, but nothing makes whoever copies keep to that.
///
/// The first reading puts every request identifier into a Bloom filter: what was in it already is a
/// suspect. The second reading knows for each suspect whether it has been counted, and what it said
/// then. So memory is the filter, 2 bytes for each record of the ledger, and 24 bytes for each
/// suspect: at ten million reports some ten thousand, wrong ones included, which then count as what
/// they are.
struct RepeatedReports {
    /// What a record is that repeats an accepted report.
    enum Repetition {
        /// It says the same.
        case copy
        /// It says something else than the record that counts: one of the two was changed.
        case altered
    }

    static let suspectCountMax = 1_000_000

    /// Of a thousand reports one is then a suspect that stands there once.
    private static let bitsPerRecord: Int64 = 16
    static let filterByteCountMin: Int64 = 1 << 20
    /// 500 million reports; there is room for twice as many before the suspects are too many.
    static let filterByteCountMax: Int64 = 1 << 30
    /// A block of the filter is a line of the processor's cache: one bit in each of its words.
    private static let blockWordCount = 8
    private static let wordIndexBitCount: UInt64 = 6

    private let blockCount: Int
    private var words: [UInt64]
    private var suspects: Set<UInt64> = []
    /// By identity; what the record says that counts.
    private var counted: [UInt64: UInt64] = [:]

    /// A filter for so many records at most, of which not all need be taken in.
    init(recordCount: Int64 = 0) {
        blockCount = Int(Self.byteCount(of: recordCount)) / (Self.blockWordCount * 8)
        words = [UInt64](repeating: 0, count: blockCount * Self.blockWordCount)
    }

    /// How large the filter is.
    static func byteCount(of recordCount: Int64) -> Int64 {
        // Of more records than this the limit is reached.
        let counted = min(max(recordCount, 0), filterByteCountMax)
        return min(max(counted * bitsPerRecord / 8, filterByteCountMin), filterByteCountMax)
    }

    /// How many may stand there twice, by the filter.
    var suspectCount: Int { suspects.count }
    /// There are more than fit: the second reading would count some of them twice.
    private(set) var isOverfull = false

    // MARK: The first reading

    /// Takes in a record of the ledger, unread so far; what cannot be read is no report.
    ///
    /// Only what may have a row in the selection, or `isAlwaysTaken`.
    ///
    /// - Returns: whether its report may have been taken in before.
    @discardableResult
    mutating func take(
        _ value: Span<UInt8>,
        of selection: LedgerSelection = LedgerSelection(),
        isAlwaysTaken: Bool = false
    ) -> Bool {
        var identifier: String?
        var outcome: String?
        var report = LedgerSelection.Report()
        let needsItems = selection.month != nil && selection.basis == .sale && !isAlwaysTaken
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                switch key {
                case "requestIdentifier": try scanner.fill(&identifier)
                case "outcome": try scanner.fill(&outcome)
                case "appAppleId": try scanner.fill(&report.app)
                case "settledAt": try scanner.fill(&report.settledAt)
                case "externalPurchaseId" where selection.environment != nil:
                    report.environment = TokenID(try scanner.string()).environment
                case "lineItems" where needsItems:
                    report.items = String(decoding: try scanner.raw(), as: UTF8.self)
                default: try scanner.skip()
                }
            }
        } catch {
            // Counted as unreadable where the rows are read.
            return false
        }
        guard let identifier, outcome != ReportOutcome.Outcome.rejected.rawValue,
            selection.matches(app: report.app, report.environment),
            isAlwaysTaken || selection.mayShow(report)
        else {
            return false
        }
        let digest = Self.digest(identifier)
        guard insert(digest) else {
            return false
        }
        suspects.insert(digest)
        isOverfull = isOverfull || suspects.count > Self.suspectCountMax
        return true
    }

    /// Whether it may have been there before.
    private mutating func insert(_ digest: UInt64) -> Bool {
        let start = Int(digest % UInt64(blockCount)) * Self.blockWordCount
        // The block takes the low bits of the digest.
        var rest = digest &* 0x9e37_79b9_7f4a_7c15
        var wasThere = true
        for index in start..<start + Self.blockWordCount {
            let bit = UInt64(1) << (rest >> (64 - Self.wordIndexBitCount))
            rest <<= Self.wordIndexBitCount
            wasThere = wasThere && words[index] & bit != 0
            words[index] |= bit
        }
        return wasThere
    }

    // MARK: The second reading

    /// Says what a record repeats.
    ///
    /// The first accepted one of an identifier, token and status counts.
    ///
    /// - Returns: nil of the one that counts, of one that is alone, and of what Apple refused.
    mutating func repetition(_ outcome: ReportOutcome) -> Repetition? {
        guard outcome.outcome != .rejected,
            suspects.contains(Self.digest(outcome.requestIdentifier))
        else {
            return nil
        }
        let identity =
            "\(outcome.requestIdentifier.lowercased())/\(outcome.status.rawValue)/"
            + outcome.externalPurchaseID.text
        let key = TextDigest.of(identity)
        // What Apple was told: how often and when it was asked may differ in a report that was confirmed
        // once more after a loss of state.
        let content = TextDigest.of("\(outcome.appAppleID)/\(outcome.details.lineItems ?? "")")
        guard let first = counted[key] else {
            counted[key] = content
            return nil
        }
        return first == content ? .copy : .altered
    }

    private static func digest(_ identifier: String) -> UInt64 {
        TextDigest.of(identifier.lowercased())
    }
}

/// What the first reading of the ledger finds out for the second: which line items were reported
/// again, and which reports stand there twice.
struct LedgerCorrections {
    private static let needle = ByteNeedle(Array("restatement".utf8))

    private(set) var restatements = Restatements()
    var repeats = RepeatedReports()

    init() {}

    /// Reads the ledger from the selection's month to its end, as corrections come later.
    ///
    /// - Throws: exit 1 where there are more corrections than fit into memory.
    init(_ reader: inout LedgerReader) throws(CommandFailure) {
        var restatements = Restatements()
        var repeats = RepeatedReports()
        let selection = reader.selection
        var isSuspect = false
        try reader.reports(
            begins: { repeats = RepeatedReports(recordCount: $0) },
            isWanted: { value in
                let isRestatement = Self.needle.isIn(value)
                // It may correct a date: then it has a row in another month.
                isSuspect = repeats.take(value, of: selection, isAlwaysTaken: isRestatement)
                return isRestatement
            },
            { (outcome, place) throws(CommandFailure) in
                try restatements.take(outcome, at: place, isSuspect: isSuspect)
                return true
            }
        )
        guard !repeats.isOverfull else {
            throw CommandFailure(
                .failed,
                code: "ledger.too_many_repeats",
                "more than \(RepeatedReports.suspectCountMax) reports may be in the ledger twice:"
                    + " export one app or month"
            )
        }
        self.restatements = restatements
        self.repeats = repeats
    }

    init(restatements: Restatements, repeats: RepeatedReports) {
        self.restatements = restatements
        self.repeats = repeats
    }
}
