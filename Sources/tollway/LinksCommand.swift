internal import Foundation
internal import Telemetry
internal import TokenDomain

/// `tollway links check`: Apple's rules for the links of an `Info.plist`.
enum LinksCommand {
    static let check = Verb(
        words: ["links", "check"],
        summary: "Apple's rules for the link keys of an Info.plist, each finding with its fix",
        operands: "INFO_PLIST",
        operandCountMax: 1,
        options: [
            .value(
                "--submitted",
                "FILE",
                "the Info.plist that Apple reviewed: must have the same links (L12)"
            ),
            .value("--entitlements", "FILE", "the app's entitlements, as a plist (L13)"),
            .flag(
                "--streaming",
                "the app is in the EEA music streaming programme: five links (L5)"
            ),
            .value(
                "--countries",
                "CODES",
                "those that Apple knows by now, as at,be,de, in place of ours (L4)"
            ),
        ],
        details: """
            Files are XML or binary property lists. Exit 0 without errors (warnings may be),
            1 with errors, 3 where the file has neither SKExternalPurchaseLink nor
            SKExternalPurchaseMultiLink.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let file = try invocation.onlyOperand(named: "INFO_PLIST")
        let list = LinkList(members: try PropertyListFile.members(of: file))
        var submitted: LinkList?
        if let path = invocation.value("--submitted") {
            submitted = LinkList(members: try PropertyListFile.members(of: path))
        }
        var entitlements: [String: PropertyValue]?
        if let path = invocation.value("--entitlements") {
            entitlements = try PropertyListFile.members(of: path)
        }
        guard !list.isEmpty else {
            throw CommandFailure(
                .nothingMatched,
                code: "links.no_keys",
                "\(file) has neither SKExternalPurchaseLink nor SKExternalPurchaseMultiLink"
            )
        }
        let findings = LinkRules.check(
            list,
            submitted: submitted,
            entitlements: entitlements,
            isStreaming: invocation.has("--streaming"),
            countries: try countries(invocation)
        )
        switch invocation.output {
        case .table: printTable(findings)
        case .json, .ndjson:
            let objects = findings.map(object)
            Console.write(JSONLines.text(objects, list: "findings", format: invocation.output))
        }
        return findings.contains { $0.severity == .error } ? .failed : .ok
    }

    private static func countries(_ invocation: Invocation) throws(CommandFailure) -> Set<String> {
        guard let text = invocation.value("--countries") else {
            return LinkRules.knownCountries
        }
        let codes = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        if let wrong = codes.first(where: { !LinkRules.isCountryCode($0) }) {
            throw .usage(
                "bad_value",
                "--countries has \"\(wrong)\": codes of two lower-case letters, with commas between"
            )
        }
        return Set(codes)
    }

    private static func printTable(_ findings: [LinkRules.Finding]) {
        guard !findings.isEmpty else {
            Console.write("no findings\n")
            return
        }
        for finding in findings {
            let place = [finding.key, finding.country ?? "", finding.link ?? ""]
                .filter { !$0.isEmpty }
                .joined(separator: " ")
            let line = "\(finding.severity.rawValue) \(finding.rule) \(place): \(finding.repair)"
            Console.write(PlainText.printable(line, characterCountMax: 2_400) + "\n")
        }
    }

    private static func object(_ finding: LinkRules.Finding) -> String {
        JSONLines.object([
            ("rule", JSONText.quoted(finding.rule)),
            ("severity", JSONText.quoted(finding.severity.rawValue)),
            ("key", finding.key.isEmpty ? "null" : JSONText.quoted(finding.key)),
            ("country", finding.country.map(JSONText.quoted) ?? "null"),
            ("link", finding.link.map(JSONText.quoted) ?? "null"),
            ("repair", JSONText.quoted(finding.repair)),
        ])
    }
}
