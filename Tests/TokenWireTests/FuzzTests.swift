import Foundation
import Testing
import TokenDomain
import TokenWire

/// Our decoder and Foundation's must agree on every text, but for the differences listed in
/// ``Reference``.
///
/// `NIGHTLY=1` tries ten million texts instead of a hundred thousand. A failure names its
/// seed; put it into `regressions`, which always run.
@Suite struct `Ours and Foundation's decoder` {
    static let shardCount = 8
    static let inputCount =
        ProcessInfo.processInfo.environment["NIGHTLY"] == "1" ? 10_000_000 : 100_000
    static let regressions: [UInt64] = []

    @Test(arguments: 0..<shardCount)
    func `agree`(shard: Int) {
        let perShard = UInt64(Self.inputCount / Self.shardCount)
        let first = UInt64(shard) * perShard
        var disagreementCount = 0
        for seed in first..<first + perShard where disagreementCount < 5 {
            if let disagreement = disagreement(FuzzInput(seed: seed)) {
                disagreementCount += 1
                Issue.record("seed \(seed): \(disagreement)")
            }
        }
    }

    @Test(arguments: regressions)
    func `agree where they once did not`(seed: UInt64) {
        #expect(disagreement(FuzzInput(seed: seed)) == nil)
    }

    @Test func `are asked about tokens as well as about trash`() {
        var counts: [String: Int] = [:]
        for seed in 0..<20_000 {
            let outcome: String
            do throws(DecodeFault) {
                _ = try decodeToken(FuzzInput(seed: UInt64(seed)).text.span)
                outcome = "token"
            } catch {
                outcome = error.code
            }
            counts[outcome, default: 0] += 1
        }
        for outcome in [
            "token", "decode.empty", "decode.not_base64url", "decode.not_json",
            "decode.missing_field", "decode.wrong_type", "decode.out_of_range",
        ] {
            #expect(counts[outcome, default: 0] >= 20, "\(outcome) of \(counts)")
        }
    }

    /// What is wrong between the two, in a sentence; nil where they agree.
    private func disagreement(_ input: FuzzInput) -> String? {
        let reference = Reference(input.text)
        var ours: ExternalPurchaseToken?
        var fault: DecodeFault?
        do throws(DecodeFault) {
            ours = try decodeToken(input.text.span)
        } catch {
            fault = error
        }
        let said = "\(fault.map { "\($0)" } ?? "a token") for \(reference.shown)"
        switch (reference.outcome, fault) {
        case (.empty, .empty), (.notBase64, .notBase64URL), (.notJSON, .notJSON):
            return nil
        case (.notJSON, _) where fault != .empty && reference.isFoundationStricter:
            return nil
        case (.object, .notJSON):
            return reference.isFoundationLaxer ? nil : "ours refuses: \(said)"
        case (.object(let object), _):
            guard let why = compare(ours, fault, with: object, of: reference) else {
                return nil
            }
            return "\(why): \(said)"
        default:
            return "Foundation says \(reference.outcome): \(said)"
        }
    }

    private func compare(
        _ ours: ExternalPurchaseToken?,
        _ fault: DecodeFault?,
        with object: [String: Any],
        of reference: Reference
    ) -> String? {
        switch fault {
        case nil:
            return ours.flatMap { differences($0, object) }
        case .missing(let field):
            return object[field] == nil || object[field] is NSNull ? nil : "\(field) is there"
        case .wrongType(let field):
            let isText = ["bundleId", "externalPurchaseId", "tokenType"].contains(field)
            return switch object[field] {
            case nil, is NSNull: "\(field) is absent"
            case is String: isText ? "\(field) is a text" : nil
            // 1.0 and 1e3 are numbers for Foundation, and no plain digits for us.
            case is NSNumber: isText || reference.hasNoPlainNumber ? nil : "\(field) is a number"
            default: nil
            }
        case .outOfRange(field: "tokenExpirationDate"):
            let creation = (object["tokenCreationDate"] as? NSNumber)?.int64Value ?? 0
            let expiration = object["tokenExpirationDate"] as? NSNumber
            let isInRange = expiration.map { fits($0) && $0.int64Value >= creation } ?? true
            return isInRange ? "the expiry is in range" : nil
        case .outOfRange(let field):
            if let text = object[field] as? String {
                return text.isEmpty ? nil : "\(field) says something"
            }
            let isInRange = (object[field] as? NSNumber).map { fits($0) } ?? true
            return isInRange ? "\(field) is in range" : nil
        default:
            return "Foundation reads an object"
        }
    }

    private func fits(_ number: NSNumber) -> Bool {
        number.compare(NSNumber(value: 0)) == .orderedDescending
            && number.compare(NSNumber(value: Int64.max)) != .orderedDescending
            && Double(Int64.max) > number.doubleValue
    }

    private func differences(
        _ token: ExternalPurchaseToken,
        _ object: [String: Any]
    ) -> String? {
        guard token.appAppleID > 0, token.tokenCreationDate.milliseconds > 0,
            token.tokenExpirationDate ?? token.tokenCreationDate >= token.tokenCreationDate,
            !token.bundleID.isEmpty, !token.externalPurchaseID.text.isEmpty
        else {
            return "what is out of range was accepted"
        }
        let pairs: [(String, AnyHashable?)] = [
            ("appAppleId", token.appAppleID),
            ("bundleId", token.bundleID),
            ("tokenCreationDate", token.tokenCreationDate.milliseconds),
            ("externalPurchaseId", token.externalPurchaseID.text),
            ("tokenType", token.tokenType?.text),
            ("tokenExpirationDate", token.tokenExpirationDate?.milliseconds),
        ]
        for (name, ours) in pairs {
            let theirs: AnyHashable? =
                switch object[name] {
                case let text as String: text
                case let number as NSNumber: number.int64Value
                default: nil
                }
            guard ours == theirs else {
                return "\(name) differs"
            }
        }
        return nil
    }
}
