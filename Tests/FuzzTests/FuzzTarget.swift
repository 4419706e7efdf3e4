import CFuzz

/// A reader of what others wrote, under test: one input in, the rule that was broken out.
///
/// Crashes are the fuzzer's to see; a rule is what a reader promises besides.
enum FuzzTarget: String, CaseIterable {
    case gate, text, wire, token, jws, certificate, links, plan

    /// - Returns: nil where all is well.
    func rule(brokenBy input: [UInt8]) -> String? {
        switch self {
        case .gate: unsafe Self.rule(cfuzz_gate(input, input.count))
        case .text: unsafe Self.rule(cfuzz_text(input, input.count))
        case .wire: WireRules.broken(by: input)
        case .token: TokenRules.broken(by: input)
        case .jws: SignedRules.jws(input)
        case .certificate: SignedRules.certificate(input)
        case .links: FileRules.links(input)
        case .plan: FileRules.plan(input)
        }
    }

    private static func rule(_ text: UnsafePointer<CChar>?) -> String? {
        unsafe text.map { unsafe String(cString: $0) }
    }
}
