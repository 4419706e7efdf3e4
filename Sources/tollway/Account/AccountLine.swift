/// How one app's tokens of a span of time ended, counted in the topics.
///
/// Each stage is counted on both sides, so that what is lost or doubled between two topics shows:
/// what a stage has not read yet is the remainder, and it may be no more than its group's lag.
struct AccountLine: Equatable {
    /// One stage: its input, its output, and what it had not read when the count began.
    struct Stage: Equatable {
        /// Records that came in.
        var incoming = 0
        /// Of these, what came from no stage before: dead letters that were sent back to this very
        /// topic, and what cannot be read.
        var replayed = 0
        /// Settled, dead-lettered or handed on.
        var outgoing = 0
        /// Not read by the group when the count began.
        var unread = 0

        /// On their way; what is below zero came out twice.
        var remainder: Int { incoming - outgoing }
        var closes: Bool { (0...max(unread, 0)).contains(remainder) }
    }

    var decode = Stage()
    var dedupe = Stage()
    var report = Stage()

    var repeats = 0
    var deadLetters = 0
    var reported = 0
    var held = 0

    /// Tokens that came in, dead letters that were sent back included: they came in once more.
    ///
    /// A record between two stages that cannot be read came in there.
    var accepted: Int { decode.incoming + dedupe.replayed + report.replayed }
    var onTheWay: Int { decode.remainder + dedupe.remainder + report.remainder }
    var closes: Bool { decode.closes && dedupe.closes && report.closes }

    /// Where it does not close, and by how much; empty where it does.
    var differences: [(stage: String, count: Int)] {
        [("decode", decode), ("dedupe", dedupe), ("report", report)].compactMap { name, stage in
            guard !stage.closes else {
                return nil
            }
            return (name, stage.remainder < 0 ? stage.remainder : stage.remainder - stage.unread)
        }
    }
}

/// How one app's sales of a span of time ended.
struct SalesLine: Equatable {
    var received = 0
    var repeats = 0
    var reported = 0
    var notOwed = 0
    var deadLetters = 0
    /// Waiting for a token, a rate, a reference or Apple, by the worker's state.
    var held = 0
    /// Not read by the group when the count began.
    var onTheWay = 0
    /// Read, and nowhere.
    var lost = 0
    /// In the ledger, and never received.
    var unknown = 0

    var closes: Bool { lost == 0 && unknown == 0 }

    /// As of tokens: what did not come out of the stage, and, below zero, what never came in.
    var differences: [(stage: String, count: Int)] {
        [lost, -unknown].filter { $0 != 0 }.map { ("purchases", $0) }
    }
}

/// One app's tokens of production in one calendar month.
struct MonthLine: Equatable {
    /// Tokens whose period touches the month; of those without expiry, the ones made in it.
    var active: Int { reported + owed + owesNone }
    /// Of the active: Apple has a report for the month.
    var reported = 0
    /// Of the active: not reported for the month, and a report for it is by the rules to come.
    var owed = 0
    /// Of the active: not reported for the month, and no report for it is by the rules to come.
    var owesNone = 0
    /// Of the reported: with a line item of a sale in the month.
    var withSales = 0
    /// Of the owed: Apple refused the report, and a person has it.
    var refused = 0
    /// Accepted reports for the month, or with a sale of it, that were late.
    var late = 0
}
