/// Apple's rules for the link keys of an `Info.plist`, L1 to L16.
///
/// Source: developer.apple.com/documentation/bundleresources/information-property-list/skexternalpurchaselink
/// and …/skexternalpurchasemultilink
package struct LinkRules: Sendable {
    package struct Finding: Equatable, Sendable {
        package enum Severity: String, Sendable {
            /// Apple refuses it, or the link does not work.
            case error
            /// It may be meant; nothing is broken by itself.
            case warning
        }

        /// `L1` to `L16`.
        package var rule: String
        package var severity: Severity
        /// The key of the property list it is about; empty for the whole of it.
        package var key: String
        package var country: String?
        package var link: String?
        /// What to do about it, one sentence.
        package var repair: String
    }

    package static let europeanUnion: Set<String> = [
        "at", "be", "bg", "hr", "cy", "cz", "dk", "ee", "fi", "fr", "de", "gr", "hu", "ie", "it",
        "lv", "lt", "lu", "mt", "nl", "pl", "pt", "ro", "sk", "si", "es", "se",
    ]
    /// Where the music streaming programme allows several links.
    package static let streamingCountries = europeanUnion.union(["is", "no"])
    /// `us` left the documentation with the 2026 copy: still known, with a warning.
    package static let knownCountries = streamingCountries.union(["ru", "us"])
    package static let linkCountMax = 5
    package static let linkCharacterCountMax = 1_000
    package static let entitlement = "com.apple.developer.storekit.external-purchase-link"

    /// The app qualifies through the EEA music streaming programme.
    private let isStreaming: Bool
    private let countries: Set<String>
    private var findings: [Finding] = []

    /// Checks the links of one app.
    ///
    /// - Parameters:
    ///   - list: what its `Info.plist` says.
    ///   - submitted: what the binary said that Apple reviewed; nil skips L12.
    ///   - entitlements: the members of its entitlements; nil makes L13 a warning.
    ///   - isStreaming: the app qualifies through the EEA music streaming programme.
    ///   - countries: those that Apple knows.
    /// - Returns: findings by key and country; empty where all is well.
    package static func check(
        _ list: LinkList,
        submitted: LinkList? = nil,
        entitlements: [String: PropertyValue]? = nil,
        isStreaming: Bool = false,
        countries: Set<String> = knownCountries
    ) -> [Finding] {
        var rules = LinkRules(isStreaming: isStreaming, countries: countries)
        let links = rules.takeLinks(list)
        let multiLinks = rules.takeMultiLinks(list)
        for country in Set(links.keys).union(multiLinks.keys).sorted() {
            rules.checkCountry(
                country,
                link: links[country],
                multiLinks: multiLinks[country] ?? []
            )
        }
        if let submitted {
            rules.compare(list, with: submitted)
        }
        rules.checkEntitlement(entitlements, of: list)
        rules.checkMinimumSystem(of: list)
        return rules.findings
    }

    private init(isStreaming: Bool, countries: Set<String>) {
        self.isStreaming = isStreaming
        self.countries = countries
    }

    /// Whether a code has the form of one.
    package static func isCountryCode(_ code: String) -> Bool {
        code.utf8.count == 2
            && code.utf8.allSatisfy { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
    }

    private mutating func find(
        _ rule: String,
        _ key: LinkList.Key?,
        country: String? = nil,
        link: String? = nil,
        severity: Finding.Severity = .error,
        _ repair: String
    ) {
        findings.append(
            Finding(
                rule: rule,
                severity: severity,
                key: key?.rawValue ?? "",
                country: country,
                link: link,
                repair: repair
            )
        )
    }

    private mutating func warn(
        _ rule: String,
        _ key: LinkList.Key,
        country: String? = nil,
        link: String? = nil,
        _ repair: String
    ) {
        find(rule, key, country: country, link: link, severity: .warning, repair)
    }

    // MARK: - Shape (L1, L2)

    private mutating func takeLinks(_ list: LinkList) -> [String: String] {
        guard let value = list.link else {
            return [:]
        }
        guard case .dictionary(let entries) = value else {
            find("L1", .link, "Make it a dictionary from country codes to one string each.")
            return [:]
        }
        var links: [String: String] = [:]
        for (country, entry) in entries.sorted(by: { $0.key < $1.key }) {
            guard case .text(let text) = entry else {
                find("L1", .link, country: country, "Give the country one string.")
                continue
            }
            links[country] = text
        }
        return links
    }

    private mutating func takeMultiLinks(_ list: LinkList) -> [String: [String]] {
        guard let value = list.multiLink else {
            return [:]
        }
        guard case .dictionary(let entries) = value else {
            find("L2", .multiLink, "Make it a dictionary from country codes to arrays of strings.")
            return [:]
        }
        var links: [String: [String]] = [:]
        for (country, entry) in entries.sorted(by: { $0.key < $1.key }) {
            guard case .list(let elements) = entry else {
                find("L2", .multiLink, country: country, "Give the country an array of strings.")
                continue
            }
            if !(1...Self.linkCountMax).contains(elements.count) {
                let repair = "The array has \(elements.count) entries: leave 1 to 5 in it."
                find("L2", .multiLink, country: country, repair)
            }
            var texts: [String] = []
            for element in elements {
                guard case .text(let text) = element else {
                    find("L2", .multiLink, country: country, "Make every entry a string.")
                    continue
                }
                texts.append(text)
            }
            links[country] = texts
        }
        return links
    }

    // MARK: - One country (L3 to L6, L16)

    private mutating func checkCountry(_ country: String, link: String?, multiLinks: [String]) {
        let key: LinkList.Key = link == nil ? .multiLink : .link
        let isKnown = checkCode(country, key)
        if let link {
            checkLink(link, .link, country)
        }
        var seen: Set<String> = []
        for multiLink in multiLinks {
            guard seen.insert(multiLink).inserted else {
                let repair = "The same link stands in the array twice: leave one."
                warn("L16", .multiLink, country: country, link: multiLink, repair)
                continue
            }
            checkLink(multiLink, .multiLink, country)
        }
        if isKnown {
            checkCount(country, link: link, multiLinks: seen)
        }
        warnOfNearlyEqual(country, key, seen.union(link.map { [$0] } ?? []))
    }

    private mutating func checkCode(_ country: String, _ key: LinkList.Key) -> Bool {
        guard Self.isCountryCode(country), country != "el" else {
            let repair =
                country.lowercased() == "el"
                ? "Greece is gr." : "Write the country as two lower-case letters, such as de."
            find("L3", key, country: country, repair)
            return false
        }
        guard countries.contains(country) else {
            let known = countries.sorted().joined(separator: " ")
            find("L4", key, country: country, "Remove it; Apple knows \(known).")
            return false
        }
        if country == "us" {
            let repair =
                "Apple's documentation no longer lists us: check whether it is still needed."
            warn("L4", key, country: country, repair)
        }
        return true
    }

    private mutating func checkCount(
        _ country: String,
        link: String?,
        multiLinks: Set<String>
    ) {
        let mayHaveMore = Self.streamingCountries.contains(country)
        let countMax = isStreaming && mayHaveMore ? Self.linkCountMax : 1
        let hint =
            mayHaveMore && !isStreaming
            ? " (five are allowed to apps of the EEA music streaming programme: --streaming)" : ""
        guard multiLinks.count <= countMax else {
            find(
                "L5",
                .multiLink,
                country: country,
                "It has \(multiLinks.count) links: leave \(countMax)\(hint)."
            )
            return
        }
        let union = multiLinks.union(link.map { [$0] } ?? [])
        guard union.count <= countMax else {
            find(
                "L6",
                .link,
                country: country,
                link: link,
                "Both keys together have \(union.count) different links and \(countMax) may be: "
                    + "use one of \(LinkList.Key.multiLink.rawValue)\(hint)."
            )
            return
        }
    }

    private mutating func warnOfNearlyEqual(
        _ country: String,
        _ key: LinkList.Key,
        _ links: Set<String>
    ) {
        // What is no URL is said to be none, and equals nothing.
        let addresses = links.map { (link: $0, address: LinkAddress($0)) }
            .filter { $0.address.defect == nil }
        let groups = Dictionary(grouping: addresses) { $0.address.folded }
            .mapValues { $0.map(\.link) }
        for group in groups.values.map({ $0.sorted() }).sorted(by: { $0[0] < $1[0] })
        where group.count > 1 {
            warn(
                "L16",
                key,
                country: country,
                link: group[1],
                "It differs from \(group[0]) only by letter case, default port or a slash at the "
                    + "end: write both alike."
            )
        }
    }

    // MARK: - One link (L7 to L11)

    private mutating func checkLink(_ link: String, _ key: LinkList.Key, _ country: String) {
        func found(_ rule: String, _ repair: String) {
            find(rule, key, country: country, link: link, repair)
        }
        let address = LinkAddress(link)
        if let scheme = address.scheme, scheme != "https" {
            found("L7", "The scheme is \(scheme): use https.")
        }
        if let defect = address.defect {
            found("L8", "Write a whole URL, such as https://example.com/buy: \(defect).")
        }
        if link.contains("?") {
            found("L9", "Remove the question mark and what follows: Apple appends its own query.")
        }
        let count = link.unicodeScalars.count
        if count > Self.linkCharacterCountMax {
            found("L10", "It has \(count) characters: leave \(Self.linkCharacterCountMax).")
        }
        if !link.utf8.allSatisfy({ $0 < 0x80 }) {
            found("L10", "Write it in ASCII: percent-encode the path, the host in Punycode.")
        }
        if link.contains("#") {
            let repair = "Remove the fragment: the query is appended behind it."
            warn("L11", key, country: country, link: link, repair)
        }
    }

    // MARK: - The whole of it (L12 to L14)

    private mutating func compare(_ list: LinkList, with submitted: LinkList) {
        let here = list.linksByCountry
        let there = submitted.linksByCountry
        for country in Set(here.keys).union(there.keys).sorted() {
            let own = here[country] ?? []
            let reviewed = there[country] ?? []
            for link in own.subtracting(reviewed).sorted() {
                let repair = "The submitted binary does not have it: submit it, or remove it here."
                find("L12", nil, country: country, link: link, repair)
            }
            for link in reviewed.subtracting(own).sorted() {
                let repair = "The submitted binary has it: add it here, or submit without it."
                find("L12", nil, country: country, link: link, repair)
            }
        }
    }

    private mutating func checkEntitlement(
        _ entitlements: [String: PropertyValue]?,
        of list: LinkList
    ) {
        guard !list.isEmpty, entitlements?[Self.entitlement] != .flag(true) else {
            return
        }
        let key: LinkList.Key = list.link == nil ? .multiLink : .link
        guard entitlements == nil else {
            find("L13", key, "Set the entitlement \(Self.entitlement) to true.")
            return
        }
        warn(
            "L13",
            key,
            "The entitlement \(Self.entitlement) was not checked: give --entitlements FILE."
        )
    }

    private mutating func checkMinimumSystem(of list: LinkList) {
        guard let system = list.minimumSystem else {
            return
        }
        if system.readsMultiLink, list.multiLink == nil, list.link != nil {
            let repair = "From \(system.text) on use \(LinkList.Key.multiLink.rawValue)."
            warn("L14", .link, repair)
        }
        if !system.readsMultiLink, list.link == nil, list.multiLink != nil {
            let repair = "For \(system.text) give \(LinkList.Key.link.rawValue) as well."
            warn("L14", .multiLink, repair)
        }
    }
}
