internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// The tokens of a customer.
extension Book {
    /// All of them, at most ``tokenCountMax`` of the store and those that are named, as they are now.
    mutating func tokens(
        of customer: BookPlace,
        named: [TokenID],
        now: Timestamp
    ) throws(StoreFault) -> [CustomerToken] {
        var found: [(token: CustomerToken, decodedAt: Timestamp)] = []
        var looked = try places(ofTokensOf: customer, now: now)
        if !looked.isWhole {
            for id in named {
                let place = customer.at(.token(id, of: customer.key.purchaseKey))
                if !looked.places.contains(place) {
                    looked.places.append(place)
                }
            }
        }
        for place in looked.places {
            if let token = try token(place), let candidate = token.candidate {
                found.append((candidate, token.decodedAt))
                found += token.otherCandidates
            }
        }
        return Self.counted(found)
    }

    /// Tokens with the offsets that they would have had in one topic.
    ///
    /// Offsets begin anew where `tokens.decoded` was made anew: a token that came later and lies lower
    /// comes behind those before it, as for `dedupe`, which counts them as they come.
    private static func counted(
        _ found: [(token: CustomerToken, decodedAt: Timestamp)]
    ) -> [CustomerToken] {
        guard found.count > 1 else {
            return found.map(\.token)
        }
        var last: (offset: Int64, decodedAt: Timestamp)?
        var shift: Int64 = 0
        return found.sorted {
            ($0.decodedAt, $0.token.offset) < ($1.decodedAt, $1.token.offset)
        }.map { token, decodedAt in
            var token = token
            if let last, token.offset + shift <= last.offset,
                decodedAt - last.decodedAt > clockDifferenceMax
            {
                shift = last.offset + 1
            }
            token.offset += shift
            if last.map({ $0.offset < token.offset }) ?? true {
                last = (token.offset, decodedAt)
            }
            return token
        }
    }

    /// By more no clock of those that write to one topic is off, as Kafka takes no record from farther ahead
    /// (`message.timestamp.after.max.ms`).
    private static let clockDifferenceMax = Milliseconds.hours(1)

    private mutating func places(
        ofTokensOf customer: BookPlace,
        now: Timestamp
    ) throws(StoreFault) -> BookMemory.Tokens {
        if let known = memory.tokens(of: customer) {
            return known
        }
        let tokens: BookMemory.Tokens
        if let places = try listed(customer) {
            tokens = BookMemory.Tokens(places: places, isWhole: true)
        } else {
            tokens = try lookForTokens(of: customer, now: now)
            let list = BookedCustomer(tokens: tokens.places.map(\.key.tokenID), touchedAt: now)
            if tokens.isWhole, !tokens.places.isEmpty, !list.isTooLong {
                put(.customer(list), at: customer)
            }
        }
        memory.keep(tokens: tokens, of: customer)
        return tokens
    }

    /// The tokens of the customer's list; nil where there is none.
    private func listed(_ customer: BookPlace) throws(StoreFault) -> [BookPlace]? {
        guard case .customer(let list)? = try slot(customer).record else {
            return nil
        }
        let purchaseKey = customer.key.purchaseKey
        return list.tokens.map { customer.at(.token($0, of: purchaseKey)) }
    }

    /// Those of the store, and those put since.
    private func lookForTokens(
        of customer: BookPlace,
        now: Timestamp
    ) throws(StoreFault) -> BookMemory.Tokens {
        var places: [BookPlace] = []
        let partition = customer.partition
        let prefix = BookKey.prefix(.token, customer.key.purchaseKey)
        try state.scan(.state, partition: partition, from: prefix, within: prefix) { key, _ in
            places.append(BookPlace(partition: partition, key: BookKey(bytes: key)))
            return places.count < Self.tokenCountMax
        }
        let isWhole = places.count < Self.tokenCountMax
        if !isWhole {
            places = try primaries(of: customer, prefix, now: now)
        }
        for place in recent.tokens(of: customer) where !places.contains(place) {
            places.append(place)
        }
        return BookMemory.Tokens(places: places, isWhole: isWhole)
    }

    /// Of a customer with more tokens than are kept in mind: those that Apple has not refused, of each
    /// period the primary; first those that are active, or were lately, then those that came last.
    ///
    /// Who sends as many forges them; Apple refuses one after the other, and the customer's own is seen.
    private func primaries(
        of customer: BookPlace,
        _ prefix: [UInt8],
        now: Timestamp
    ) throws(StoreFault) -> [BookPlace] {
        typealias Found = (place: BookPlace, offset: Int64, isOver: Bool, decodedAt: Timestamp)
        let partition = customer.partition
        var first: [TokenPeriod: Found] = [:]
        var others: [Found] = []
        var leftCount = Self.scannedCountMax
        try state.scan(.state, partition: partition, from: prefix, within: prefix) { key, value in
            let place = BookPlace(partition: partition, key: BookKey(bytes: key))
            let record = memory.slot(place)?.record ?? Self.read(value, place.key)
            if case .token(let token) = record, !token.isRefused, let candidate = token.candidate {
                let found = (
                    place, token.offset, Self.isOver(candidate.token, now: now), token.decodedAt
                )
                if let period = candidate.period {
                    if first[period].map({ token.offset < $0.offset }) ?? true {
                        first[period] = found
                    }
                } else {
                    others.append(found)
                }
                for (claim, decodedAt) in token.otherCandidates {
                    let isOver = Self.isOver(claim.token, now: now)
                    others.append((place, claim.offset, isOver, decodedAt))
                }
            }
            leftCount -= 1
            return leftCount > 0
        }
        let sorted = (Array(first.values) + others).sorted {
            $0.isOver == $1.isOver ? $0.decodedAt > $1.decodedAt : $1.isOver
        }
        // A token may be there by several claims.
        var places: [BookPlace] = []
        var known: Set<BookPlace> = []
        for found in sorted where known.insert(found.place).inserted {
            places.append(found.place)
            if places.count == Self.tokenCountMax {
                break
            }
        }
        return places
    }

    /// Whether no sale of the last weeks can go under a token, or it is yet to begin.
    private static func isOver(_ token: ExternalPurchaseToken, now: Timestamp) -> Bool {
        let end = token.tokenExpirationDate ?? token.tokenCreationDate + lateSpan
        return token.tokenCreationDate > now || end < now + -lateSpan
    }

    /// Sales come as late as that.
    private static let lateSpan = Milliseconds.days(30)

    /// A token was refused, or is known after all: its period has another primary.
    func forgetPrimaries(of customer: BookPlace) {
        if memory.tokens(of: customer)?.isWhole == false {
            memory.forget(tokensOf: customer)
        }
    }

    /// Tokens of one customer that are kept in mind.
    static let tokenCountMax = 2_000
    /// Tokens of one customer that are looked at where there are more: a fifth of a second.
    private static let scannedCountMax = 100_000

    /// Reads the tokens of customers who are looked at next, with two questions a partition.
    func load(tokensOf customers: Set<BookPlace>) throws(StoreFault) {
        let missing = customers.filter { memory.tokens(of: $0) == nil }
        try load(Array(missing))
        var tokens: [BookPlace] = []
        for customer in missing {
            guard let places = try listed(customer) else {
                continue
            }
            memory.keep(tokens: BookMemory.Tokens(places: places, isWhole: true), of: customer)
            tokens += places
        }
        try load(tokens)
    }

    /// Puts a token or a claim that the book did not know: the customer's sales see it at once.
    mutating func putNew(
        _ token: BookedToken,
        at place: BookPlace,
        now: Timestamp
    ) throws(StoreFault) {
        put(token, at: place)
        let customer = place.at(place.key.customer)
        recent.note(newToken: place, of: customer)
        if var known = memory.tokens(of: customer), !known.places.contains(place) {
            known.places.append(place)
            memory.keep(tokens: known, of: customer)
        }
        guard case .customer(var list)? = try slot(customer).record,
            !list.tokens.contains(place.key.tokenID)
        else {
            return
        }
        list.tokens.append(place.key.tokenID)
        list.touchedAt = now
        // Without a list they are looked for.
        put(list.isTooLong ? nil : .customer(list), at: customer)
    }
}
