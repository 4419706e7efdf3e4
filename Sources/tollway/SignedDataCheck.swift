internal import AppStoreAPI
internal import Crypto
internal import Foundation
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway notification verify`, `tollway transaction verify`: whether what was signed is Apple's,
/// and what it says.
enum SignedDataCheck {
    /// A JWS may have 64 KiB; in JSON, with white space around it, somewhat more.
    private static let fileByteCountMax = 1 << 20
    private static let rootsByteCountMax = 1 << 20

    static let notification = verb(.notification)
    static let transaction = verb(.transaction)

    private static let options: [Verb.Option] = [
        .value("--roots", "FILE", "trusted roots as PEM; else TOLLWAY_APPLE_ROOTS_FILE"),
        .value("--bundle-id", "ID", "refuse what is signed for another app"),
        .value("--app-apple-id", "N", "the same, by the app's Apple id, where it is named"),
        .value("--environment", "production|sandbox", "refuse what is of the other one"),
    ]

    private static let details = """
        FILE holds a JWS, or an object with one: {"signedPayload":"..."} or
        {"signedTransaction":"..."}; without FILE, or with -, standard input does. Prints the
        payload as Apple signed it. The certificates must have been valid when it was signed.
        Genuine data of another sort than the verb names is exit 0 as well, and a sentence on
        standard error says what sort it is. Exit 1 and a code if it is not genuine or not for the
        app asked for: jws.malformed .alg .chain .certificate .oid .signature .wrong_app
        .wrong_environment. Exit 2 if that cannot be found out.
        """

    private static func verb(_ kind: Kind) -> Verb {
        Verb(
            words: [kind.rawValue, "verify"],
            summary: "whether a signed \(kind.rawValue) is Apple's, and its content",
            operands: "[FILE | -]",
            operandCountMax: 1,
            options: options,
            details: details,
            run: { (invocation) throws(CommandFailure) in try run(invocation, kind) }
        )
    }

    /// What a verb is asked about.
    private enum Kind: String {
        case notification
        case transaction

        /// Says what a payload is, where it is not what the verb names; nil where it is.
        ///
        /// The workers take nothing but what they ask for; this is for a person who looks.
        func surprise(_ payload: JSONValue) -> String? {
            let sort = SignedSort(payload)
            let isIt =
                switch self {
                case .notification: sort == .notification
                // Nothing that every transaction has is promised: only another sort is a surprise.
                case .transaction: sort == .transaction || sort == .other
                }
            return isIt ? nil : "signed by Apple, but no \(rawValue): it is \(sort.rawValue)"
        }
    }

    /// What Apple signs, by a field that only this sort has.
    ///
    /// Source: responseBodyV2DecodedPayload, JWSTransactionDecodedPayload,
    /// JWSRenewalInfoDecodedPayload; AppTransaction
    private enum SignedSort: String {
        case notification = "a notification"
        case transaction = "a transaction"
        case renewal = "the renewal of a subscription"
        case appTransaction = "an app transaction"
        case other = "data of another sort"

        init(_ payload: JSONValue) {
            if SignedIdentity(payload).isNotification {
                self = .notification
            } else if payload["transactionId"] != nil {
                self = .transaction
            } else if payload["autoRenewStatus"] != nil {
                self = .renewal
            } else if payload["receiptType"] != nil {
                self = .appTransaction
            } else {
                self = .other
            }
        }
    }

    private static func run(
        _ invocation: Invocation,
        _ kind: Kind
    ) throws(CommandFailure) -> ExitCode {
        let expected = try Expected(invocation)
        let roots = try roots(invocation)
        let file = try InputFile.read(
            invocation.operands.first ?? "-",
            byteCountMax: fileByteCountMax
        )
        do throws(JWSFault) {
            let text = try jws(in: file)
            let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
            let payload = try SignedDataVerifier(roots: roots).verify(text.span, now: now)
            try SignedIdentity(payload.value).check(
                bundleID: expected.bundleID,
                appAppleID: expected.appAppleID,
                environment: expected.environment
            )
            write(payload.bytes, invocation.output)
            if let sentence = kind.surprise(payload.value) {
                Console.say(sentence)
            }
            return .ok
        } catch {
            // As JSON the code has a member of its own.
            let prefix = invocation.output == .json ? "" : "\(error.code): "
            throw CommandFailure(.failed, code: error.code, prefix + error.message)
        }
    }

    /// What was asked for beyond being genuine.
    private struct Expected {
        var bundleID: String?
        var appAppleID: Int64?
        var environment: AppleEnvironment?

        init(_ invocation: Invocation) throws(CommandFailure) {
            bundleID = invocation.value("--bundle-id")
            guard bundleID != "" else {
                throw .usage("bad_value", "--bundle-id is empty")
            }
            if invocation.has("--app-apple-id") {
                appAppleID = Int64(
                    try invocation.integer("--app-apple-id", default: 0, in: 1...Int.max)
                )
            }
            environment = try invocation.environment()
        }
    }

    private static func roots(_ invocation: Invocation) throws(CommandFailure) -> TrustedRoots {
        let name = Setting.appleRootsFile.fullName
        guard let path = invocation.value("--roots") ?? ProcessInfo.processInfo.environment[name]
        else {
            throw .usage("missing_roots", "say which roots to trust: --roots FILE, or \(name)")
        }
        let pem = try InputFile.read(path, byteCountMax: rootsByteCountMax)
        do throws(CryptoFault) {
            return try TrustedRoots(pem: pem)
        } catch {
            let hint = AppleRoots.hint(pem, error)
            throw .usage(
                "bad_roots",
                "the roots in \"\(path)\" cannot be used: \(error.explanation)\(hint)"
            )
        }
    }

    /// The JWS in a file, bare or as the one member of an object that names it.
    private static func jws(in file: [UInt8]) throws(JWSFault) -> [UInt8] {
        guard file.count <= fileByteCountMax else {
            throw .malformed("the file is larger than 1 MiB")
        }
        let blanks: Set<UInt8> = [0x20, 0x09, 0x0a, 0x0d]
        let text = file.drop { blanks.contains($0) }.reversed().drop { blanks.contains($0) }
        let trimmed = Array(text.reversed())
        guard trimmed.first == UInt8(ascii: "{") else {
            return trimmed
        }
        guard let object = JSONValue(trimmed) else {
            throw .malformed("the file is neither a JWS nor JSON")
        }
        guard let jws = object["signedPayload"]?.text ?? object["signedTransaction"]?.text else {
            throw .malformed("the object has neither signedPayload nor signedTransaction")
        }
        return Array(jws.utf8)
    }

    private static func write(_ payload: [UInt8], _ output: OutputFormat) {
        let lineEnds: Set<UInt8> = [0x0a, 0x0d]
        // Between values a line end is white space like any other; within them JSON has none.
        let shown =
            output == .ndjson ? payload.map { lineEnds.contains($0) ? 0x20 : $0 } : payload
        Console.write(shown + [UInt8(ascii: "\n")])
    }
}
