internal import StageRuntime
internal import TokenDomain

extension TokenTally {
    /// Counts how a token ended that is held no more, and one that is held anew; one that goes on under
    /// another app ends under the first as a repeat of itself.
    mutating func moved(from before: TokenAccount?, to after: TokenAccount) {
        let app = after.appAppleID ?? Self.unknownApp
        switch (before?.isHeld ?? false, after.isHeld) {
        case (true, true) where before?.appAppleID != after.appAppleID:
            add(.repeated, app: before?.appAppleID ?? Self.unknownApp)
            add(.accepted, app: app)
        case (true, false): add(after.lastAccepted == nil ? .deadLetter : .reported, app: app)
        case (false, true): add(.accepted, app: app)
        case (true, true), (false, false): break
        }
    }
}
