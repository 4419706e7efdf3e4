import Crypto
import Glibc
import Testing

@Suite struct `The memory of a process that holds keys` {
    @Test func `is not written into a core dump`() throws {
        ProcessMemory.refuseDumps()
        #expect(try dumpable() == 0)
    }

    /// What the kernel has noted, by the same call that sets it.
    private func dumpable() throws -> Int32 {
        // prctl takes any number of arguments, which Swift does not call.
        typealias Prctl = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
        let symbol = unsafe dlsym(nil, "prctl")
        try #require(unsafe symbol != nil)
        let prctl = unsafe unsafeBitCast(symbol, to: Prctl.self)
        let getDumpable: Int32 = 3
        return prctl(getDumpable, 0, 0, 0, 0)
    }
}
