import Testing

@testable import TokenDomain

@Suite struct `Apple's rules for links` {
    private let good = "https://example.com/buy"

    private func list(
        link: [String: String]? = nil,
        multi: [String: [String]]? = nil,
        system: MinimumSystem? = nil
    ) -> LinkList {
        LinkList(
            link: link.map { .dictionary($0.mapValues { .text($0) }) },
            multiLink: multi.map { multi in
                .dictionary(multi.mapValues { .list($0.map { .text($0) }) })
            },
            minimumSystem: system
        )
    }

    /// Rules found, with `?` where it is a warning; the entitlement is there.
    private func rules(
        _ list: LinkList,
        submitted: LinkList? = nil,
        isStreaming: Bool = false
    ) -> [String] {
        LinkRules.check(
            list,
            submitted: submitted,
            entitlements: [LinkRules.entitlement: .flag(true)],
            isStreaming: isStreaming
        )
        .map { $0.rule + ($0.severity == .warning ? "?" : "") }
    }

    @Test func `know the European Union, its neighbours and nobody else`() {
        #expect(LinkRules.europeanUnion.count == 27)
        #expect(LinkRules.knownCountries.count == 31)
    }

    @Test func `take other countries than those of today`() {
        let links = list(link: ["ch": good, "de": good])
        let found = LinkRules.check(
            links,
            entitlements: [LinkRules.entitlement: .flag(true)],
            countries: ["ch", "us"]
        )
        #expect(found.map(\.rule) == ["L4"] && found.first?.country == "de")
        #expect(found.first?.repair == "Remove it; Apple knows ch us.")
    }

    @Test(arguments: [
        ("de", []), ("is", []), ("ru", []), ("us", ["L4?"]), ("ch", ["L4"]), ("uk", ["L4"]),
        ("el", ["L3"]), ("DE", ["L3"]), ("EL", ["L3"]), ("deu", ["L3"]), ("d", ["L3"]),
        ("", ["L3"]),
        ("d1", ["L3"]), ("dé", ["L3"]),
    ])
    func `judge a country`(country: String, found: [String]) {
        #expect(rules(list(link: [country: good])) == found)
        #expect(rules(list(multi: [country: [good]])) == found)
    }

    @Test(arguments: [
        ("https://example.com", []), ("HTTPS://Example.com/", []), ("https://a.b:8443/c/d", []),
        ("https://[2001:db8::1]/a", []), ("https://a.example/%7Ea", []),
        ("http://example.com", ["L7"]), ("mailto:a@example.com", ["L7", "L8"]),
        ("example.com/buy", ["L8"]), ("//example.com", ["L8"]), ("", ["L8"]), ("https:", ["L8"]),
        ("https://", ["L8"]), ("https:///buy", ["L8"]), ("https://user@example.com", ["L8"]),
        ("https://user:pw@example.com", ["L8"]), ("https://example.com:x", ["L8"]),
        ("https://example.com:65536", ["L8"]), ("https://example.com:0", ["L8"]),
        ("https://example.com:", ["L8"]), ("https://example.com/%2", ["L8"]),
        ("https://example.com/%zz", ["L8"]), ("https://exam ple.com", ["L8"]),
        ("https://a..b/", ["L8"]), ("https://example.com/<a>", ["L8"]), (" https://a.b", ["L8"]),
        ("https://example.com?a=b", ["L9"]), ("https://example.com/?", ["L9"]),
        ("https://example.com/#a?b", ["L9", "L11?"]), ("https://example.com/ü", ["L10"]),
        ("https://exämple.com/", ["L10"]), ("https://example.com/#top", ["L11?"]),
        ("http://user@exämple.com?a#b", ["L7", "L8", "L9", "L10", "L11?"]),
    ])
    func `judge a link`(link: String, found: [String]) {
        #expect(rules(list(link: ["de": link])) == found)
        #expect(rules(list(multi: ["de": [link]])) == found)
    }

    @Test func `allow a thousand characters and no more`() {
        let longest = "https://example.com/" + String(repeating: "a", count: 980)
        #expect(longest.count == LinkRules.linkCharacterCountMax)
        #expect(rules(list(link: ["de": longest])) == [])
        #expect(rules(list(link: ["de": longest + "a"])) == ["L10"])
    }

    private func links(_ count: Int) -> [String] {
        (0..<count).map { "\(good)/\($0)" }
    }

    @Test(arguments: [
        ("de", 1, false, []), ("de", 2, false, ["L5"]), ("de", 5, true, []),
        ("de", 6, true, ["L2", "L5"]), ("no", 5, true, []), ("ru", 2, true, ["L5"]),
        ("us", 2, true, ["L4?", "L5"]), ("us", 1, true, ["L4?"]), ("de", 0, true, ["L2"]),
    ])
    func `count the links of a country`(
        country: String,
        count: Int,
        isStreaming: Bool,
        found: [String]
    ) {
        let multi = list(multi: [country: links(count)])
        #expect(Set(rules(multi, isStreaming: isStreaming)) == Set(found))
    }

    @Test func `name the switch where five links might be allowed`() {
        let findings = LinkRules.check(list(multi: ["de": links(2), "ru": links(2)]))
        let repairs = findings.filter { $0.rule == "L5" }
        #expect(repairs.map(\.country) == ["de", "ru"])
        #expect(repairs[0].repair.contains("--streaming"))
        #expect(!repairs[1].repair.contains("--streaming"))
        let union = LinkRules.check(list(link: ["de": good], multi: ["de": links(1)]))
        #expect(union.first { $0.rule == "L6" }?.repair.contains("--streaming") == true)
    }

    @Test func `count both keys together, each link once`() {
        #expect(rules(list(link: ["de": good], multi: ["de": [good]])) == [])
        #expect(rules(list(link: ["de": good], multi: ["de": links(1)])) == ["L6"])
        let five = links(5)
        #expect(rules(list(link: ["de": five[4]], multi: ["de": five]), isStreaming: true) == [])
        let sixth = list(link: ["de": good], multi: ["de": five])
        #expect(rules(sixth, isStreaming: true) == ["L6"])
        let four = list(link: ["de": good], multi: ["de": links(4)])
        #expect(rules(four, isStreaming: true) == [])
    }

    @Test func `warn of a link repeated and refuse six even if equal`() {
        #expect(rules(list(multi: ["de": [good, good]])) == ["L16?"])
        let six = Array(repeating: good, count: 6)
        #expect(Set(rules(list(multi: ["de": six]))) == ["L2", "L16?"])
    }

    @Test func `let several countries share a link`() {
        #expect(rules(list(link: ["de": good, "fr": good], multi: ["it": [good]])) == [])
    }

    @Test(arguments: [
        ("https://example.com/buy", "https://EXAMPLE.com/buy"),
        ("https://example.com/buy", "https://example.com:443/buy"),
        ("https://example.com/buy", "https://example.com/buy/"),
        ("https://example.com", "HTTPS://example.com/"),
    ])
    func `warn of links that are nearly equal`(first: String, second: String) {
        #expect(rules(list(multi: ["de": [first, second]]), isStreaming: true) == ["L16?"])
    }

    @Test(arguments: [
        ("example.com/a", "example.com/b"), ("", "/buy"), ("https://", "https:///buy"),
        ("https://example.com?a=b", "https://example.com?a=c"),
        ("https://example.com/#a", "https://example.com/#b"),
        ("https://example.com", "https://example.com#top"),
        ("https://example.com/a", "https://example.com/A"),
    ])
    func `do not take what differs, or is no URL, for nearly equal`(first: String, second: String) {
        let found = rules(list(multi: ["de": [first, second]]), isStreaming: true)
        #expect(!found.contains("L16?"), "\(found)")
    }

    @Test func `tell the shapes of the two keys apart`() {
        func found(_ link: PropertyValue?, _ multi: PropertyValue?) -> [String] {
            rules(LinkList(link: link, multiLink: multi))
        }
        let text = PropertyValue.text(good)
        #expect(found(text, nil) == ["L1"])
        #expect(found(.dictionary(["de": .list([text])]), nil) == ["L1"])
        #expect(found(.dictionary(["de": .other]), nil) == ["L1"])
        #expect(found(nil, .list([text])) == ["L2"])
        #expect(found(nil, .dictionary(["de": text])) == ["L2"])
        #expect(found(nil, .dictionary(["de": .list([.flag(true)])])) == ["L2"])
        #expect(found(.dictionary(["de": text]), .dictionary(["de": .list([text])])) == [])
    }

    @Test func `compare with what was submitted, as sets by country`() {
        let here = list(link: ["de": good], multi: ["fr": ["\(good)/1", "\(good)/2"]])
        let same = list(link: ["de": good], multi: ["fr": ["\(good)/2", "\(good)/1"]])
        #expect(rules(here, submitted: same, isStreaming: true) == [])
        let other = list(link: ["de": good, "it": good], multi: ["fr": ["\(good)/1", good]])
        let findings = LinkRules.check(here, submitted: other, isStreaming: true)
            .filter { $0.rule == "L12" }
        #expect(
            findings.map { "\($0.country ?? "") \($0.link ?? "")" } == [
                "fr \(good)/2", "fr \(good)", "it \(good)",
            ]
        )
    }

    private static let entitlements:
        [(given: [String: PropertyValue]?, found: LinkRules.Finding.Severity?)] = [
            ([LinkRules.entitlement: .flag(true)], nil),
            ([LinkRules.entitlement: .flag(false)], .error),
            ([LinkRules.entitlement: .text("true")], .error), ([:], .error), (nil, .warning),
        ]

    @Test(arguments: entitlements)
    func `ask for the entitlement`(
        entitlements: [String: PropertyValue]?,
        severity: LinkRules.Finding.Severity?
    ) {
        let findings = LinkRules.check(list(link: ["de": good]), entitlements: entitlements)
        #expect(findings.map(\.severity) == (severity.map { [$0] } ?? []))
        #expect(findings.allSatisfy { $0.rule == "L13" })
    }

    @Test(arguments: [
        (["MinimumOSVersion": "17.4", "DTPlatformName": "iphoneos"], "L14?", ""),
        (["MinimumOSVersion": "17.5", "DTPlatformName": "iphoneos"], "", "L14?"),
        (["MinimumOSVersion": "18", "DTPlatformName": "appletvos"], "", "L14?"),
        (["MinimumOSVersion": "10.4.1", "DTPlatformName": "watchos"], "L14?", ""),
        (["MinimumOSVersion": "1.2", "DTPlatformName": "xros"], "", "L14?"),
        (["LSMinimumSystemVersion": "14.4"], "L14?", ""),
        (["LSMinimumSystemVersion": "15.0"], "", "L14?"),
        (["MinimumOSVersion": "15.0"], "", ""),
        (["MinimumOSVersion": "abc", "DTPlatformName": "iphoneos"], "", ""),
    ])
    func `know which key the oldest system reads`(
        members: [String: String],
        onlyMulti: String,
        onlyLink: String
    ) {
        let system = MinimumSystem(members: members.mapValues { .text($0) })
        let multi = rules(list(multi: ["de": [good]], system: system))
        #expect(multi == (onlyMulti.isEmpty ? [] : [onlyMulti]))
        let link = rules(list(link: ["de": good], system: system))
        #expect(link == (onlyLink.isEmpty ? [] : [onlyLink]))
        #expect(rules(list(link: ["de": good], multi: ["de": [good]], system: system)) == [])
    }
}
