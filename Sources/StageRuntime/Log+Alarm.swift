package import Telemetry
package import TokenDomain

extension Log {
    /// Says what a person must look at of one token or sale: an error, limited per trace.
    package func alarm(_ message: StaticString, _ trace: TraceParent?) {
        limited(.error, message, per: trace?.traceID, ("traceId", .text(trace?.traceID ?? "")))
    }
}
