/// A second listener of every node, for clients that say who they are, over TLS, and may do only
/// what they were given the right to.
///
/// Whoever comes in by the other listener, as the launcher does, may do everything.
package struct GuardedListener: Sendable {
    /// PKCS #12, with the key and the certificate of the nodes.
    package var keyStore: String
    package var keyStorePassword: String
    /// By user; both mechanisms, PLAIN and SCRAM-SHA-512, know all of them.
    package var passwords: [String: String]

    package init(keyStore: String, keyStorePassword: String, passwords: [String: String]) {
        self.keyStore = keyStore
        self.keyStorePassword = keyStorePassword
        self.passwords = passwords
    }

    static let name = "SASL_SSL"

    /// Lines of `server.properties`, which have no `listeners` among them.
    var properties: [String] {
        let plain = passwords.sorted { $0.key < $1.key }.map { "user_\($0)=\"\($1)\"" }
        let own = "listener.name.sasl_ssl"
        let module = "org.apache.kafka.common.security"
        return [
            "inter.broker.listener.name=PLAINTEXT",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
                + "\(Self.name):SASL_SSL",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
            "\(own).plain.sasl.jaas.config=\(module).plain.PlainLoginModule required"
                + " \(plain.joined(separator: " "));",
            "\(own).scram-sha-512.sasl.jaas.config=\(module).scram.ScramLoginModule required;",
            "\(own).ssl.keystore.type=PKCS12",
            "\(own).ssl.keystore.location=\(keyStore)",
            "\(own).ssl.keystore.password=\(keyStorePassword)",
            "\(own).ssl.key.password=\(keyStorePassword)",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]
    }

    /// What the storage is formatted with.
    var formatArguments: [String] {
        passwords.sorted { $0.key < $1.key }.flatMap {
            ["--add-scram", "SCRAM-SHA-512=[name=\($0.key),password=\($0.value)]"]
        }
    }
}
