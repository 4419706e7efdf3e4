internal import CKafka

/// How the process keeps its memory: of the whole process, so its program says it.
package enum ProcessMemory {
    /// Sets malloc up for a program that does little else than hold records; before it has threads.
    package static func tune() {
        ckafka_tune_malloc()
    }
}
