internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// What was not owed, and may be after all.
extension PurchasesStage {
    /// A token came, or what it refers to is reported: decides whether it is owed after all.
    ///
    /// `isOver`: its own time is over, and what it refers to may be owed; it waits with that then.
    func reopen(
        _ item: BookedItem,
        _ place: BookPlace,
        isOver: Bool = false,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard let event = try book.event(0, of: place) else {
            return
        }
        var reopened = item
        reopened.standing = .pending
        // What refers to nothing has waited for its token: it was not owed for want of one. That the
        // partition has just come, or a restatement stands for it, begins no wait that nobody ends.
        let hasWaited = item.sale?.kind == .buy && !isLater(item)
        var decision = try decideBase(
            &reopened,
            place,
            event,
            isWaitOver: hasWaited,
            &book,
            now: plan.now
        )
        switch decision {
        case .queue, .wait(.rate): break
        // Apple has its subscription now: it waits for its token as one that has just come in.
        case .wait(.token) where isLater(reopened):
            decision = .wait(.token(until: plan.now + policy.tokenWait))
        case .refuse(let fault) where fault.rule == .tokenOutOfRange && isLater(reopened):
            decision = .wait(.token(until: plan.now + policy.tokenWait))
        // Apple has the buy that is refunded: a token wakes nobody who waits for a buy.
        case .wait(.token): break
        // It is owed, and cannot be reported as it is: its dead letter comes with what is due.
        case .refuse: decision = .wait(.now)
        // As before: nothing is owed as far as is known.
        case .wait(.reference(let other, _)) where other.kind == .item:
            guard isOver else {
                return try refer(item, to: other.name, place, &book, now: plan.now)
            }
        case .notOwed: return try refer(item, to: reopened.parent, place, &book, now: plan.now)
        case .wait, .repeated: return
        }
        reopened.reopensUntil = nil
        metrics.count(.reopened, "token", of: place.key.lane)
        try enact(correctable(decision, reopened), reopened, place, event, &book, into: &plan)
    }

    /// Whether what an item refers to was found to be owed after all: it is on its way to Apple, is there,
    /// or was refused, after which nothing is known of it.
    func mayBeOwed(
        _ parent: String?,
        _ place: BookPlace,
        _ book: Book
    ) throws(StoreFault) -> Bool {
        guard let parent else {
            return false
        }
        return try book.item(place.at(place.key.sibling(parent)))?.standing != .notOwed
    }

    /// Whether a refund is not owed, nothing reopens it any more, and its buy was reported since: whoever
    /// sends it again means it.
    ///
    /// What was retracted comes back by a restatement alone: a copy says what was said before.
    func isOwedByNow(
        _ item: BookedItem,
        _ place: BookPlace,
        _ book: Book
    ) throws(StoreFault) -> Bool {
        guard item.standing == .notOwed, item.wait == .idle, item.sale?.kind == .refund,
            !item.isRetracted, let parent = item.parent
        else {
            return false
        }
        return try book.item(place.at(place.key.sibling(parent)))?.standing == .live
    }

    /// What is not owed waits for another item to reopen it, where it refers to that one now.
    private func refer(
        _ item: BookedItem,
        to parent: String?,
        _ place: BookPlace,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) {
        guard !BookKey.isSame(parent, item.parent) else {
            return
        }
        var item = item
        item.parent = parent
        try goOn(&item, place, &book, now: now)
    }

    private func isLater(_ item: BookedItem) -> Bool {
        item.sale?.isLaterSubscriptionEvent ?? false
    }
}
