internal import Crypto

/// Chains found genuine, so that one that signs thousands of notifications is validated once.
///
/// A chain comes in with the first genuine signature under it, so a forger cannot drive one out.
struct GenuineChains {
    static let countMax = 32

    private struct Chain {
        var name: [UInt8]
        var leafKey: P256PublicKey
        var validSeconds: ClosedRange<Int64>
    }

    /// An intermediate, as text and as certificate, under which a leaf was found to be genuine.
    private struct Intermediate {
        var text: [UInt8]
        var certificate: Certificate
    }

    /// The oldest first.
    private var chains: [Chain] = []
    private var intermediates: [Intermediate] = []

    /// The leaf's key, if the chain is known and was valid then.
    func leafKey(ofChain name: [UInt8], atSeconds seconds: Int64) -> P256PublicKey? {
        chains.first { $0.name == name && $0.validSeconds.contains(seconds) }?.leafKey
    }

    mutating func remember(
        _ name: [UInt8],
        leafKey: P256PublicKey,
        validSeconds: ClosedRange<Int64>
    ) {
        if chains.count == Self.countMax {
            chains.removeFirst()
        }
        chains.append(Chain(name: name, leafKey: leafKey, validSeconds: validSeconds))
    }

    func intermediate(_ text: [UInt8]) -> Certificate? {
        intermediates.first { $0.text == text }?.certificate
    }

    mutating func rememberIntermediate(_ text: [UInt8], _ certificate: Certificate) {
        guard intermediate(text) == nil else {
            return
        }
        if intermediates.count == Self.countMax {
            intermediates.removeFirst()
        }
        intermediates.append(Intermediate(text: text, certificate: certificate))
    }
}
