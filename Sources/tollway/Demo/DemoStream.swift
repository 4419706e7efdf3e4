internal import Foundation
internal import TokenDomain

/// The demo's input, all of it made from one seed, and the truth about it.
///
/// Every token that comes later refers to one that came earlier (a repeat, a duplicate), so the
/// order of `deliveries` is part of the truth: the first of a period stays its primary.
struct DemoStream {
    /// The apps that the demo reports for.
    static let apps: [(appAppleID: Int64, bundleID: String)] = [
        (PublishedSamples.appAppleID, PublishedSamples.bundleID),
        (2_000_000_001, "com.example.music"),
        (2_000_000_002, "com.example.games"),
    ]

    private static let tokensPerNotice = 40

    private(set) var deliveries: [DemoDelivery] = []
    private(set) var truth = DemoTruth()
    /// What is sold besides, under tokens of their own.
    let sales: DemoSales?
    /// Every token that Apple issued, delivered to us or not.
    private(set) var registrations: [DemoToken] = []

    private var generator: SeededGenerator
    private let now: Int64
    private var customerCount = 0
    /// Tokens that may be repeated or have a duplicate, with their customers.
    private var delivered: [(token: DemoToken, customer: String?)] = []
    private var periods: [(token: DemoToken, customer: String)] = []

    /// `tokenCount` is how many tokens go in; notices come on top.
    ///
    /// `now` is UNIX milliseconds; tokens are made in the days before. Notices come at the end; with
    /// `noticesAmongTokens` they come all along, and may well overtake the token they are about.
    /// The tokens of `sales` go in first; the sales themselves are sent apart.
    init(
        tokenCount: Int,
        seed: UInt64,
        now: Int64,
        noticesAmongTokens: Bool = false,
        sales: DemoSales? = nil
    ) {
        generator = SeededGenerator(seed: seed)
        self.now = now
        self.sales = sales
        deliverSamples()
        for buyer in sales?.buyers ?? [] {
            let status = buyer.isSoldWith ? "LINE_ITEM" : "NO_LINE_ITEM"
            register(buyer.token, of: buyer.customer, .sold, status: status)
            send(buyer.token.text(makeForm()), customer: buyer.customer, .sold)
        }
        let noticeCount = max(tokenCount / Self.tokensPerNotice, 4)
        var noticesLeft = noticeCount
        // Notices are of tokens delivered, and few tokens may all be samples and those of buyers.
        while tokensIn < tokenCount || delivered.isEmpty {
            deliverOne()
            let isDue = tokensIn >= (noticeCount - noticesLeft + 1) * Self.tokensPerNotice
            if noticesAmongTokens, isDue, noticesLeft > 0, !delivered.isEmpty {
                deliverNotice()
                noticesLeft -= 1
            }
        }
        deliverNotices(count: noticesLeft)
        deliverForgedNotices(count: max(noticeCount / 10, 1))
    }

    private var tokensIn: Int {
        truth.inputs.values.reduce(0, +)
    }

    // MARK: Kinds of input

    private mutating func deliverOne() {
        switch below(100) {
        case 0..<28: deliverPrimary(.plain, type: nil)
        case 28..<38: deliverPrimary(.services, type: "SERVICES")
        case 38..<45: deliverPrimary(.acquisition, type: "ACQUISITION")
        case 45..<53:
            let types = ["IN_APP", "LINK_OUT", "CORE_TECHNOLOGY", "WITHIN_APP_2027"]
            deliverPrimary(.otherTypes, type: types[below(types.count)])
        case 53..<58: deliverSharedDates()
        case 58..<62: deliverBeside()
        case 62..<67: deliverLink()
        case 67..<72: deliverDirect()
        case 72..<82: deliverDuplicate()
        case 82..<93: deliverRepeat()
        default: deliverUndecodable()
        }
    }

    /// Two ids in five texts: whatever comes after the first of an id is the same token again.
    private mutating func deliverSamples() {
        let texts = [
            PublishedSamples.plain, PublishedSamples.services,
            PublishedSamples.sandboxPrintedAsPlain, PublishedSamples.sandboxServices,
        ]
        for text in texts {
            send(text, customer: "the reader of the page", .samples)
        }
        deliveries.append(.door(line: Self.line(["url": PublishedSamples.link])))
        truth.count(.samples)
        for id in [PublishedSamples.productionID, PublishedSamples.sandboxID] {
            truth.reports[id] = DemoTruth.Report(status: "NO_LINE_ITEM", demoClass: .samples)
            registrations.append(
                DemoToken(
                    externalPurchaseID: id,
                    appAppleID: PublishedSamples.appAppleID,
                    bundleID: PublishedSamples.bundleID,
                    tokenType: id == PublishedSamples.sandboxID ? "SERVICES" : nil,
                    created: 1_706_169_600_000,
                    expires: id == PublishedSamples.sandboxID ? 1_706_173_200_000 : nil
                )
            )
        }
    }

    private mutating func deliverPrimary(_ demoClass: DemoClass, type: String?) {
        let token = makeToken(type: type)
        let customer = type == nil && below(3) == 0 ? nil : makeCustomer()
        deliver(token, customer: customer, demoClass, status: "NO_LINE_ITEM")
    }

    /// Sample dates are whole minutes or days, so two customers may well share all of them.
    private mutating func deliverSharedDates() {
        let token = makeToken(type: "SERVICES")
        deliver(token, customer: makeCustomer(), .sharedDates, status: "NO_LINE_ITEM")
        var other = token
        other.externalPurchaseID = makeID(isSandbox: token.externalPurchaseID.hasPrefix("SANDBOX"))
        deliver(other, customer: makeCustomer(), .sharedDates, status: "NO_LINE_ITEM")
    }

    private mutating func deliverBeside() {
        let token = makeToken(type: "SERVICES")
        let customer = makeCustomer()
        deliver(token, customer: customer, .beside, status: "NO_LINE_ITEM")
        var other = token
        other.tokenType = "ACQUISITION"
        other.externalPurchaseID = makeID(isSandbox: token.externalPurchaseID.hasPrefix("SANDBOX"))
        deliver(other, customer: customer, .beside, status: "NO_LINE_ITEM")
    }

    private mutating func deliverLink() {
        let token = makeToken(type: nil)
        register(token, of: nil, .links, status: "NO_LINE_ITEM")
        var text = token.text(makeForm())
        if below(2) == 0 {
            text = text.replacingOccurrences(of: "=", with: "%3D")
        }
        let url =
            "https://shop.example/buy?externalPurchaseToken=\(text)&bundleId=\(token.bundleID)"
        deliveries.append(.door(line: Self.line(["url": url])))
        truth.count(.links)
    }

    private mutating func deliverDirect() {
        let token = makeToken(type: nil)
        register(token, of: nil, .direct, status: "NO_LINE_ITEM")
        let value = Self.line(["token": token.text(makeForm()), "source": "kafka"])
        deliveries.append(.topic(value: value))
        truth.count(.direct)
    }

    private mutating func deliverDuplicate() {
        guard !periods.isEmpty else {
            return deliverPrimary(.services, type: "SERVICES")
        }
        let (first, customer) = periods[below(periods.count)]
        var token = first
        token.externalPurchaseID = makeID(isSandbox: first.externalPurchaseID.hasPrefix("SANDBOX"))
        register(token, of: customer, .duplicates, status: "DUPLICATE_TOKEN")
        send(token.text(makeForm()), customer: customer, .duplicates)
    }

    private mutating func deliverRepeat() {
        guard !delivered.isEmpty else {
            return deliverPrimary(.plain, type: nil)
        }
        let (token, customer) = delivered[below(delivered.count)]
        // Padding and white space may differ: the id is what counts, never the text.
        send(token.text(makeForm()), customer: customer, .repeats)
    }

    // MARK: Notices

    private mutating func deliverNotices(count: Int) {
        for _ in 0..<count {
            deliverNotice()
        }
    }

    /// One about a token that was delivered, and one about a token that never is.
    private mutating func deliverNotice() {
        let (token, _) = delivered[below(delivered.count)]
        deliveries.append(.notice(externalPurchaseID: token.externalPurchaseID))
        truth.count(.unreportedKnown)
        let unknown = makeToken(type: nil)
        register(unknown, of: nil, .unreportedUnknown, status: "UNRECOGNIZED_TOKEN")
        deliveries.append(.notice(externalPurchaseID: unknown.externalPurchaseID))
        truth.count(.unreportedUnknown)
    }

    private mutating func deliverForgedNotices(count: Int) {
        for _ in 0..<count {
            let token = makeToken(type: nil)
            registrations.append(token)
            deliveries.append(.forgedNotice(externalPurchaseID: token.externalPurchaseID))
            truth.count(.forged)
        }
    }

    // MARK: Undecodable

    private mutating func deliverUndecodable() {
        let form = makeForm()
        var token = makeToken(type: nil)
        let code: String
        var text: String
        switch below(12) {
        case 0: (code, text) = ("decode.not_base64url", "ey*" + token.text(form))
        case 1: (code, text) = ("decode.not_json", DemoToken.base64("not a token at all", form))
        case 2:
            (code, text) = ("decode.not_json", DemoToken.base64(token.json(form) + "}", form))
        case 3:
            let json = "{\"appAppleId\":\(token.appAppleID),\"bundleId\":\"\(token.bundleID)\"}"
            (code, text) = ("decode.missing_field", DemoToken.base64(json, form))
        case 4:
            let json = token.json(form)
                .replacingOccurrences(of: ":\(token.created)", with: ":\"\(token.created)\"")
            (code, text) = ("decode.wrong_type", DemoToken.base64(json, form))
        case 5:
            token.created = -1
            (code, text) = ("decode.out_of_range", token.text(form))
        case 6:
            token.appAppleID = 999_999_999
            token.bundleID = "com.example.nobody"
            (code, text) = ("decode.unknown_app", token.text(form))
        case 7:
            let url =
                "https://shop.example/?externalPurchaseToken=\(token.text(form))"
                + "&bundleId=com.example.other"
            deliveries.append(.door(line: Self.line(["url": url])))
            return conclude("decode.bundle_mismatch")
        case 8:
            deliveries.append(.topic(value: Self.line(["token": "   "])))
            return conclude("decode.empty")
        case 9:
            let long = String(repeating: "A", count: 4_097)
            deliveries.append(.topic(value: Self.line(["token": long])))
            return conclude("decode.too_long")
        case 10:
            deliveries.append(.topic(value: "[\"no object\"]"))
            return conclude("decode.bad_envelope")
        default:
            let value = Self.line(["token": token.text(form), "customer": "somebody@example.com"])
            deliveries.append(.topic(value: value))
            return conclude("decode.bad_customer")
        }
        deliveries.append(.door(line: Self.line(["token": text])))
        conclude(code)
    }

    private mutating func conclude(_ code: String) {
        truth.count(.undecodable)
        truth.expectDeadLetter(code, worker: "decode", .undecodable)
    }

    // MARK: Making

    private mutating func deliver(
        _ token: DemoToken,
        customer: String?,
        _ demoClass: DemoClass,
        status: String
    ) {
        register(token, of: customer, demoClass, status: status)
        send(token.text(makeForm()), customer: customer, demoClass)
        delivered.append((token, customer))
        if let customer, token.expires != nil {
            periods.append((token, customer))
        }
    }

    private mutating func register(
        _ token: DemoToken,
        of customer: String?,
        _ demoClass: DemoClass,
        status: String
    ) {
        registrations.append(token)
        registrations[registrations.count - 1].customer = customer
        truth.reports[token.externalPurchaseID] = DemoTruth.Report(
            status: status,
            demoClass: demoClass
        )
    }

    private mutating func send(_ text: String, customer: String?, _ demoClass: DemoClass) {
        var members = ["token": text]
        members["customer"] = customer
        deliveries.append(.door(line: Self.line(members)))
        truth.count(demoClass)
    }

    private mutating func makeToken(type: String?) -> DemoToken {
        let app = Self.apps[below(Self.apps.count)]
        let isSandbox = below(4) == 0
        let hasPeriod = type.map { TokenType(text: $0).hasDuplicates } ?? false
        let minute: Int64 = 60_000
        // Within the last minutes in the sandbox, where a period is an hour; within three days else.
        let age = Int64(below(isSandbox ? 20 : 3 * 24 * 60)) * minute
        let created = (now - age) / minute * minute
        return DemoToken(
            externalPurchaseID: makeID(isSandbox: isSandbox),
            appAppleID: app.appAppleID,
            bundleID: app.bundleID,
            tokenType: type,
            created: created,
            expires: hasPeriod ? created + (isSandbox ? 60 : 365 * 24 * 60) * minute : nil
        )
    }

    private mutating func makeID(isSandbox: Bool) -> String {
        let digits = (0..<2).map { _ in
            let text = String(generator.next(), radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }
        let hex = Array(digits.joined())
        let groups = [hex[0..<8], hex[8..<12], hex[12..<16], hex[16..<20], hex[20..<32]]
        return (isSandbox ? "SANDBOX_" : "") + groups.map { String($0) }.joined(separator: "-")
    }

    private mutating func makeCustomer() -> String {
        customerCount += 1
        return "customer-\(customerCount)"
    }

    private mutating func makeForm() -> DemoToken.Form {
        DemoToken.Form(
            isPretty: below(4) == 0,
            hasTrailingLineFeed: below(3) == 0,
            isPadded: below(2) == 0,
            usesStandardAlphabet: below(5) == 0
        )
    }

    private mutating func below(_ bound: Int) -> Int {
        Int.random(in: 0..<bound, using: &generator)
    }

    /// A JSON object of texts on one line.
    private static func line(_ members: [String: String]) -> String {
        let pairs = members.sorted { $0.key < $1.key }.map { name, text in
            let escaped = text.replacingOccurrences(of: "\\", with: "\\\\")
                .replacingOccurrences(of: "\"", with: "\\\"")
            return "\"\(name)\":\"\(escaped)\""
        }
        return "{" + pairs.joined(separator: ",") + "}"
    }
}
