internal import Foundation
internal import HTTPServer

/// Apple's side on this machine: three ports, one thread, one loop.
///
/// Either ``run()`` on a thread of the caller, or ``start()`` for one of its own.
package final class AppleSimulator: @unchecked Sendable {
    package struct Options: Sendable {
        /// A numeric address or `localhost`.
        package var host = "127.0.0.1"
        /// Production's, which sandbox and admin follow; 0 is any three.
        package var port: UInt16 = 9500
        package var world = AppleWorld.Settings()
        package var faults: [FaultRule] = []
        package var keys: [RegisteredKey] = []
        /// Where notifications go; environments without one get none by themselves.
        package var notificationURLs: [StoreEnvironment: String] = [:]

        package init() {}
    }

    /// An API key as it is registered with the simulator.
    package struct RegisteredKey: Sendable {
        package var keyID: String
        package var issuerID: String
        /// P-256.
        package var publicKeyPEM: [UInt8]
        /// Empty: any app.
        package var bundleIDs: [String]

        package init(keyID: String, issuerID: String, publicKeyPEM: [UInt8], bundleIDs: [String]) {
            self.keyID = keyID
            self.issuerID = issuerID
            self.publicKeyPEM = publicKeyPEM
            self.bundleIDs = bundleIDs
        }
    }

    package struct Ports: Equatable, Sendable {
        package var production: UInt16
        package var sandbox: UInt16
        package var admin: UInt16
    }

    package let ports: Ports
    private let host: String
    /// Guards ``world``: the loop holds it while it judges, ``withWorld(_:)`` for its caller.
    private let lock = NSLock()
    private let world: AppleWorld
    /// Touched by the running thread alone, once ``init`` is over.
    private let loop: SimulatorLoop
    private let wake: WakeDescriptor
    private let finished = DispatchSemaphore(value: 0)
    private var isStarted = false

    package init(options: Options = Options()) throws(SimulatorFault) {
        host = options.host
        world = AppleWorld(settings: options.world)
        for fault in options.faults { world.add(fault) }
        for (environment, url) in options.notificationURLs {
            world.setNotificationURL(url, for: environment)
        }
        for key in options.keys {
            do throws(APIKeyFault) {
                try world.addKey(
                    keyID: key.keyID,
                    issuerID: key.issuerID,
                    publicKeyPEM: key.publicKeyPEM,
                    bundleIDs: key.bundleIDs
                )
            } catch { throw .badKey(keyID: key.keyID) }
        }
        wake = try WakeDescriptor()
        loop = try SimulatorLoop(host: host, port: options.port, world: world, lock: lock)
        ports = loop.ports
    }

    package func baseURL(_ environment: StoreEnvironment) -> String {
        url(environment == .production ? ports.production : ports.sandbox)
    }

    package var adminURL: String { url(ports.admin) }

    private func url(_ port: UInt16) -> String {
        host.contains(":") ? "http://[\(host)]:\(port)" : "http://\(host):\(port)"
    }

    /// Runs until ``stop()``, or until `descriptor` becomes readable.
    ///
    /// - Parameter descriptor: such as that of a signal; -1 for none.
    package func run(untilReadable descriptor: Int32 = -1) {
        loop.run(until: [wake.descriptor, descriptor])
    }

    /// Runs on a thread of its own until ``stop()``.
    package func start() {
        precondition(!isStarted, "a simulator is started once")
        isStarted = true
        let thread = Thread { [self] in
            run()
            finished.signal()
        }
        thread.name = "apple-simulator"
        thread.start()
    }

    /// Ends the loop, waits for its thread where there is one, and closes every connection.
    package func stop() {
        wake.signal()
        if isStarted { finished.wait() }
        isStarted = false
        loop.close()
    }

    /// Lends the world while the loop waits; keep it short.
    package func withWorld<Result>(_ body: (AppleWorld) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(world)
    }
}

/// Why a simulator could not start.
package enum SimulatorFault: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotListen(address: String, message: String)
    /// The public key under this identifier is no P-256 key in PEM.
    case badKey(keyID: String)
    case system(message: String)

    package var description: String {
        switch self {
        case .cannotListen(let address, let message): "cannot listen on \(address): \(message)"
        case .badKey(let keyID): "the public key of \(keyID) is no P-256 key in PEM"
        case .system(let message): message
        }
    }
}
