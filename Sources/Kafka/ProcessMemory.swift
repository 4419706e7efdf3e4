internal import CKafka

/// How the process keeps its memory: of the whole process, so its program says it.
package enum ProcessMemory {
    /// Sets malloc up for a program that does little else than hold records; before it has threads.
    ///
    /// - Parameter readsBatches: whether it reads records in batches, as the workers behind ingest do.
    package static func tune(readsBatches: Bool) {
        ckafka_tune_malloc(readsBatches ? 1 : 0)
    }
}
