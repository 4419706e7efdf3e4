/// A value of a property list, as far as the link rules look at it.
package indirect enum PropertyValue: Equatable, Sendable {
    case text(String)
    case list([PropertyValue])
    case dictionary([String: PropertyValue])
    case flag(Bool)
    /// A number, a date or data.
    case other
}

/// What an `Info.plist` says about links to buy elsewhere.
package struct LinkList: Equatable, Sendable {
    /// The two keys, by the names that findings use.
    package enum Key: String, Sendable, CaseIterable {
        case link = "SKExternalPurchaseLink"
        case multiLink = "SKExternalPurchaseMultiLink"
    }

    /// `SKExternalPurchaseLink`, whatever it is; nil where absent.
    package var link: PropertyValue?
    /// `SKExternalPurchaseMultiLink`, whatever it is; nil where absent.
    package var multiLink: PropertyValue?
    /// The oldest system it runs on; nil where the platform or the version is unknown.
    package var minimumSystem: MinimumSystem?

    package init(
        link: PropertyValue?,
        multiLink: PropertyValue?,
        minimumSystem: MinimumSystem? = nil
    ) {
        self.link = link
        self.multiLink = multiLink
        self.minimumSystem = minimumSystem
    }

    /// Reads the members of an `Info.plist`.
    package init(members: [String: PropertyValue]) {
        self.init(
            link: members[Key.link.rawValue],
            multiLink: members[Key.multiLink.rawValue],
            minimumSystem: MinimumSystem(members: members)
        )
    }

    /// Whether there is anything to check.
    package var isEmpty: Bool { link == nil && multiLink == nil }

    /// Every link by its country, both keys together, each once.
    package var linksByCountry: [String: Set<String>] {
        var links: [String: Set<String>] = [:]
        for value in [link, multiLink] {
            guard case .dictionary(let entries) = value else {
                continue
            }
            for (country, entry) in entries {
                links[country, default: []].formUnion(Self.texts(of: entry))
            }
        }
        return links
    }

    static func texts(of entry: PropertyValue) -> [String] {
        switch entry {
        case .text(let text): [text]
        case .list(let entries): entries.flatMap { texts(of: $0) }
        case .dictionary, .flag, .other: []
        }
    }
}

/// The oldest system an app runs on.
package struct MinimumSystem: Equatable, Sendable {
    package enum Platform: String, Sendable {
        case iOS, macOS, tvOS, watchOS, visionOS

        /// From here on `SKExternalPurchaseMultiLink` is read.
        ///
        /// Source: rule L14; developer.apple.com/documentation/bundleresources/information-property-list
        package var firstWithMultiLink: (major: Int, minor: Int) {
            switch self {
            case .iOS, .tvOS: (17, 5)
            case .macOS: (14, 5)
            case .watchOS: (10, 5)
            case .visionOS: (1, 2)
            }
        }
    }

    package var platform: Platform
    package var major: Int
    package var minor: Int

    package init(platform: Platform, major: Int, minor: Int) {
        self.platform = platform
        self.major = major
        self.minor = minor
    }

    package var readsMultiLink: Bool {
        let first = platform.firstWithMultiLink
        return (major, minor) >= (first.major, first.minor)
    }

    package var text: String { "\(platform.rawValue) \(major).\(minor)" }

    /// `LSMinimumSystemVersion` is macOS's own; `MinimumOSVersion` needs a key that names the platform.
    package init?(members: [String: PropertyValue]) {
        if case .text(let version) = members["MinimumOSVersion"],
            let platform = Self.platform(members), let (major, minor) = Self.numbers(version)
        {
            self.init(platform: platform, major: major, minor: minor)
            return
        }
        guard case .text(let version) = members["LSMinimumSystemVersion"],
            let (major, minor) = Self.numbers(version)
        else {
            return nil
        }
        self.init(platform: .macOS, major: major, minor: minor)
    }

    private static func platform(_ members: [String: PropertyValue]) -> Platform? {
        var names: [String] = []
        if case .text(let name) = members["DTPlatformName"] {
            names.append(name)
        }
        if let supported = members["CFBundleSupportedPlatforms"] {
            names += LinkList.texts(of: supported)
        }
        for name in names {
            switch name.lowercased() {
            case "iphoneos", "iphonesimulator": return .iOS
            case "appletvos", "appletvsimulator": return .tvOS
            case "watchos", "watchsimulator": return .watchOS
            case "xros", "xrsimulator": return .visionOS
            case "macosx": return .macOS
            default: continue
            }
        }
        return members["LSRequiresIPhoneOS"] == .flag(true) ? .iOS : nil
    }

    private static func numbers(_ version: String) -> (Int, Int)? {
        let parts = version.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.map { part in
            part.allSatisfy { $0.isASCII && $0.isNumber } ? Int(part) : nil
        }
        guard (1...3).contains(numbers.count), let major = numbers[0] else {
            return nil
        }
        guard numbers.count > 1 else {
            return (major, 0)
        }
        return numbers[1].map { (major, $0) }
    }
}
