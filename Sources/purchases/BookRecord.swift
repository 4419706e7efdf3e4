internal import StateStore
internal import TokenWire

/// A record of the book, of whatever kind.
///
/// Behind a reference: it is handed on a dozen times a sale, and mostly read in one place.
indirect enum BookRecord {
    case item(BookedItem)
    case token(BookedToken)
    case customer(BookedCustomer)
    case subscription(BookedSubscription)
    case event(BookedEvent)

    /// Reads a value of the changelog.
    init(reading value: [UInt8], key: BookKey) throws(WireFault) {
        guard key.bytes.count > 3 else {
            throw .outOfRange(field: "key")
        }
        switch key.kind {
        case .item: self = .item(try BookedItem(reading: value, key: key))
        case .token: self = .token(try BookedToken(reading: value, key: key))
        case .customer: self = .customer(try BookedCustomer(reading: value))
        case .subscription: self = .subscription(try BookedSubscription(reading: value))
        case .event: self = .event(try BookedEvent(reading: value))
        case nil: throw .outOfRange(field: "key")
        }
    }

    /// Appends a value of the changelog.
    func write(to bytes: inout [UInt8]) {
        switch self {
        case .item(let item): item.write(to: &bytes)
        case .token(let token): token.write(to: &bytes)
        case .customer(let customer): customer.write(to: &bytes)
        case .subscription(let subscription): subscription.write(to: &bytes)
        case .event(let event): event.write(to: &bytes)
        }
    }

    /// Whether nothing is to be done about it soon: it is looked at again when it is referred to, which
    /// most sales are not, or when a token or a rate comes, which may take days.
    var isAtRest: Bool {
        guard case .item(let item) = self else {
            return false
        }
        return switch item.wait {
        case .idle, .reopening, .token, .rate, .base: true
        case .now, .reference, .turn, .queued, .sent: false
        }
    }

    /// What the due table has of it.
    func entries(_ key: BookKey) -> DueEntries {
        switch self {
        case .item(let item): BookDue.entries(of: item, key)
        case .token(let token): BookDue.entries(of: token, key)
        case .customer(let customer): BookDue.entries(of: customer, key)
        case .subscription(let subscription): BookDue.entries(of: subscription, key)
        case .event: DueEntries()
        }
    }
}
