internal import TokenDomain

/// Everything in the stage is bounded; the debts themselves wait in the store.
struct ReportLimits {
    /// Debts of one partition that fall due in one tick.
    var dueCountMax = 1_000
    /// Ready debts of one queue read at once, the most urgent of all its partitions.
    var readyCountMax = 384
    /// Notices of one partition that the guard serves in one tick, and that are counted.
    var guardedCountMax = 1_000
    /// Accounts of one partition forgotten in one tick.
    var forgottenCountMax = 256
    /// Requests of one queue under way: one that Apple leaves without answers must not take the
    /// room of the others.
    var flightCountMax = 32
    /// Requests to one of Apple's two hosts under way, likewise.
    var hostFlightCountMax = 256
    /// Reports under way, or answered and not committed: two seconds at ten thousand a second.
    ///
    /// Where Kafka takes no commit, each of them is asked for again after the next start.
    var unsettledCountMax = 20_000
    /// Answers settled in one tick.
    var answerCountMax = 2_000
    /// So many, the last of a burst, are settled without a wait for more.
    var wholeAnswerCountMin = 64
    /// Answers that come one soon after another are settled in one transaction.
    ///
    /// What a commit costs, on the broker too, is shared by them. A process that ends before asks
    /// Apple again for what it had from so long.
    var settleInterval = Milliseconds.seconds(1)
    /// Of a round of requests, and for so long answers are collected; divides a second.
    var roundInterval = Milliseconds(50)
    /// The same for a replica that has at most half of the partitions.
    var sharedRoundInterval = Milliseconds(20)
    /// Until what fell due is looked at again where no commit made it another.
    var dueInterval = Milliseconds(100)
    var inquiryInterval = Milliseconds(100)
    /// Until the guard asks again about a worker that has not read far enough.
    var behindInterval = Milliseconds.seconds(1)
    var measureInterval = Milliseconds.seconds(1)
    /// So long after it was written at most, an order for a lane holds for its next request.
    var orderInterval = Milliseconds(100)
    /// So often orders are looked for while Kafka is away: each question may take a second.
    var orderIntervalAway = Milliseconds.seconds(2)
    /// So often orders are looked for while a lane waits for nothing else.
    var orderWait = Milliseconds.seconds(1)

    /// Longer between two ticks, and the process stood still: it may have lost its partitions, which
    /// the group gives away after `session.timeout.ms`.
    var standstillMax = Milliseconds.seconds(15)
    /// For so long nothing is sent then: a session and a heartbeat, in which the group has said so.
    var standstillHold = Milliseconds.seconds(18)

    init() {}
}
