internal import TokenDomain

/// Some reports of the ledger by chance: those whose digest with the seed is smallest.
///
/// So seed and ledger alone decide which, and not the order in which partitions happen to come.
struct ClaimSample {
    private struct Entry {
        var digest: UInt64
        var claim: AppleReports.Claim

        /// Two records of one report have one digest.
        static func isBefore(_ left: Entry, _ right: Entry) -> Bool {
            (left.digest, left.claim.position) < (right.digest, right.claim.position)
        }
    }

    private let countMax: Int
    private let seed: UInt64
    private var entries: [Entry] = []
    /// What is above this is none of them.
    private var digestMax = UInt64.max

    /// A sample that holds twice as many for a while.
    init(countMax: Int, seed: UInt64) {
        precondition(countMax > 0, "a sample has a report")
        self.countMax = countMax
        self.seed = seed
    }

    mutating func take(_ claim: AppleReports.Claim) {
        let digest = TextDigest.of("\(seed)/\(claim.outcome.requestIdentifier.lowercased())")
        guard digest <= digestMax else {
            return
        }
        entries.append(Entry(digest: digest, claim: claim))
        if entries.count >= 2 * countMax {
            cut()
        }
    }

    /// Those that were drawn, in an order of their own.
    mutating func finish() -> [AppleReports.Claim] {
        cut()
        return entries.map(\.claim)
    }

    private mutating func cut() {
        entries.sort(by: Entry.isBefore)
        entries.removeLast(max(0, entries.count - countMax))
        if entries.count == countMax, let last = entries.last {
            digestMax = last.digest
        }
    }
}
