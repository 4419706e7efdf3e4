/// Why a request had no answer.
package struct TransportFailure: Error, Equatable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case resolve
        case connect
        /// No common version or cipher, or no TLS at all.
        case tls
        /// The certificate does not verify: who answers may not be Apple.
        case tlsUntrusted = "tls_untrusted"
        case timeout
        /// The connection ended before the answer did.
        case reset
        case http = "protocol"
        case other
    }

    package var kind: Kind
    /// The HTTP library's sentence for it; holds nothing of the request.
    package var sentence: String

    package init(_ kind: Kind, sentence: String = "") {
        self.kind = kind
        self.sentence = sentence
    }
}
