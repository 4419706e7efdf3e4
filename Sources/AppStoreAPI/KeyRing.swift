package import TokenDomain

/// The keys of the apps, and which of them each lane signs with: the first that Apple accepts.
///
/// A key is given up for the next one when Apple refuses what it signed (401, or 403 for its role),
/// lane by lane: an app without a release in production is refused there with every key. After the
/// last comes the first again, and once Apple accepts one after it had refused all. A list of keys that
/// has changed is tried from its beginning.
package final class KeyRing {
    /// A lane signs with another key than before.
    package struct Change: Equatable, Sendable {
        package var lane: Lane
        /// Refused; nil where the lane goes back to the first, or the list has changed.
        package var refused: String?
        /// Nil where the app has no usable key any more.
        package var keyID: String?
        /// As ``AppStoreClient/Signer/number``; 1 where none is usable.
        package var number: Int
    }

    private let load: (Int64) -> [AppStoreClient.Signer]
    private let changed: (Change) -> Void
    private var signers: [Int64: [AppStoreClient.Signer]] = [:]
    /// Of lanes that do not sign with the first.
    private var positions: [Lane: Int] = [:]
    /// Where every key was refused since one was accepted: that was not for the key, but for the clock, or
    /// Apple's own fault.
    private var refusingAll: Set<Lane> = []

    /// A ring of keys that are loaded when they are first needed, and again after a reload.
    package init(
        load: @escaping (Int64) -> [AppStoreClient.Signer],
        changed: @escaping (Change) -> Void = { _ in }
    ) {
        self.load = load
        self.changed = changed
    }

    /// What signs now; nil where the app has no usable key.
    package func signer(of lane: Lane) -> AppStoreClient.Signer? {
        let all = signers(of: lane.appAppleID)
        return all.isEmpty ? nil : all[positions[lane] ?? 0]
    }

    /// Takes in what an answer says about the key that its request was signed with.
    ///
    /// Only a refusal of the key in use changes anything: what was signed before it came into use
    /// may still be under way. `httpStatus` is that of an answer.
    package func heard(
        httpStatus: Int,
        of lane: Lane,
        signedWith keyID: String
    ) {
        guard [401, 403].contains(httpStatus) else {
            // Who is overloaded has not looked at the signature.
            if httpStatus < 500, ![408, 429].contains(httpStatus), refusingAll.remove(lane) != nil,
                positions[lane, default: 0] > 0
            {
                startWithFirst(lane.appAppleID, in: [lane.environment])
            }
            return
        }
        let all = signers(of: lane.appAppleID)
        let position = positions[lane] ?? 0
        guard all.count > 1, all[position].keyID == keyID else {
            return
        }
        let next = (position + 1) % all.count
        positions[lane] = next
        if next == 0 {
            refusingAll.insert(lane)
        }
        changed(
            Change(lane: lane, refused: keyID, keyID: all[next].keyID, number: all[next].number)
        )
    }

    /// Reads the keys of an app again.
    package func reload(appAppleID: Int64) {
        let before = signers[appAppleID]
        let now = load(appAppleID)
        signers[appAppleID] = now
        let isSame = before?.elementsEqual(now) { $0.keyID == $1.keyID && $0.number == $1.number }
        // Nobody was told yet of those that are loaded for the first time.
        if isSame != true {
            startWithFirst(appAppleID, in: AppleEnvironment.allCases)
        }
    }

    /// Signs with the first key again, in every lane of an app: somebody says that Apple accepts it now.
    package func startWithFirst(appAppleID: Int64) {
        let lanes = positions.keys.filter { $0.appAppleID == appAppleID }
        startWithFirst(appAppleID, in: lanes.map(\.environment))
    }

    private func startWithFirst(_ appAppleID: Int64, in environments: [AppleEnvironment]) {
        let first = signers(of: appAppleID).first
        for environment in environments {
            let lane = Lane(appAppleID: appAppleID, environment: environment)
            positions[lane] = nil
            changed(
                Change(lane: lane, refused: nil, keyID: first?.keyID, number: first?.number ?? 1)
            )
        }
    }

    private func signers(of appAppleID: Int64) -> [AppStoreClient.Signer] {
        if let known = signers[appAppleID] {
            return known
        }
        let loaded = load(appAppleID)
        signers[appAppleID] = loaded
        if let first = loaded.first, first.number > 1 {
            startWithFirst(appAppleID, in: AppleEnvironment.allCases)
        }
        return loaded
    }
}
