internal import Glibc

/// Work on a thread of its own, which nobody joins: for calls that block.
package enum DetachedThread {
    private final class Work: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) {
            self.run = run
        }
    }

    package static func start(_ run: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        let argument = unsafe Unmanaged.passRetained(Work(run)).toOpaque()
        let status = unsafe pthread_create(
            &thread,
            nil,
            { argument in
                guard let argument = unsafe argument else {
                    preconditionFailure("a thread gets the argument it was made with")
                }
                unsafe Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            },
            argument
        )
        precondition(status == 0, "the system gives a thread")
        pthread_detach(thread)
    }
}
