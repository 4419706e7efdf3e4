internal import CCrypto

/// The memory of this process, which holds keys.
package enum ProcessMemory {
    /// Forbids core dumps, and that another process of the same user reads this one's memory.
    ///
    /// The kernel then gives most of `/proc/self` to root: what is read there, such as the
    /// environment, must be read before.
    package static func refuseDumps() {
        let code = ccrypto_refuse_dumps()
        precondition(code == CCRYPTO_OK, "the kernel keeps the memory of a process to itself")
    }
}
