internal import AppStoreAPI
internal import TokenDomain

/// Turns a request for an app account token into what is owed to a transaction: verifies the signed
/// ones, knows which apps are ours, and refuses what Apple would refuse.
final class AccountTokenIntake {
    /// A request that can be sent.
    struct Order {
        var originalTransactionID: String
        var lane: Lane
        var bundleID: String
        var appAccountToken: String
        var requestedAt: Timestamp
        var requestID: String

        var key: [UInt8] { Debtor.key(ofTransaction: originalTransactionID, lane: lane) }
    }

    /// A request that cannot: its outcome, and its dead letter.
    struct Refusal: Error {
        var outcome: AccountTokenOutcome
        var fault: Fault
    }

    private let verifier: () -> SignedDataVerifier?
    private let appAppleID: (_ bundleID: String) -> Int64?

    /// - Parameters:
    ///   - verifier: nil without roots; then signed transactions are refused.
    ///   - appAppleID: nil for a bundle that is not ours.
    init(
        verifier: @escaping () -> SignedDataVerifier? = { nil },
        appAppleID: @escaping (_ bundleID: String) -> Int64? = { _ in nil }
    ) {
        self.verifier = verifier
        self.appAppleID = appAppleID
    }

    /// Apple's limit for an app, over all replicas.
    ///
    /// Source: Identifying rate limits (apple-api 5.3): 20 per second, kept by the hour.
    static func requestsPerSecond(_ environment: AppleEnvironment) -> Double {
        20 * environment.limitShare
    }

    func order(_ requested: AccountTokenRequested, now: Timestamp) throws(Refusal) -> Order {
        func refusal(_ id: String, _ code: String, _ message: String) -> Refusal {
            Refusal(
                outcome: AccountTokenOutcome(
                    originalTransactionID: id,
                    appAccountToken: requested.appAccountToken,
                    outcome: .rejected,
                    httpStatus: 0,
                    errorCode: nil,
                    attempts: 0,
                    settledAt: now
                ),
                fault: Fault(code: code, message: message)
            )
        }
        let id: String
        let bundleID: String
        let environment: AppleEnvironment
        switch requested.subject {
        case .original(let transactionID, let bundle, let world):
            (id, bundleID, environment) = (transactionID, bundle, world)
        case .signedTransaction(let text):
            guard let verifier = verifier() else {
                throw refusal(
                    "",
                    "report.no_roots",
                    "signed transactions need TOLLWAY_APPLE_ROOTS_FILE"
                )
            }
            let transaction: SignedTransaction
            do throws(JWSFault) {
                transaction = SignedTransaction(try verifier.verify(text, now: now))
            } catch {
                throw refusal("", error.code, error.message)
            }
            guard let original = transaction.originalTransactionID,
                let bundle = transaction.bundleID,
                let world = transaction.environment
            else {
                throw refusal(
                    transaction.originalTransactionID ?? "",
                    "report.bad_transaction",
                    "the transaction lacks its original id, its bundle id or its environment"
                )
            }
            guard !transaction.isFamilyShared else {
                throw refusal(
                    original,
                    "report.family_shared",
                    "Apple sets no app account token on what the family shares"
                )
            }
            (id, bundleID, environment) = (original, bundle, world)
        }
        guard let appAppleID = appAppleID(bundleID) else {
            throw refusal(id, "report.unknown_app", "the bundle id is none of an app of ours")
        }
        guard !id.isEmpty, TextLimit.identifier.holds(id),
            TokenAccount.isUUID(requested.appAccountToken)
        else {
            throw refusal(
                id,
                "report.bad_record",
                "appAccountToken is not a UUID, or the transaction's id is none"
            )
        }
        return Order(
            originalTransactionID: id,
            lane: Lane(appAppleID: appAppleID, environment: environment),
            bundleID: bundleID,
            appAccountToken: requested.appAccountToken.lowercased(),
            requestedAt: requested.requestedAt,
            requestID: requested.requestID
        )
    }
}
