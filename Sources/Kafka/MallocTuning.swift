internal import CKafka

/// How the process keeps its memory: of the whole process, so its program says it.
package enum MallocTuning {
    package static let spareByteCountDefault: Int32 = 2 << 20

    /// Sets malloc up for a program that does little else than hold records; before it has threads.
    ///
    /// `spareByteCount` are kept for the next transaction at the end of the heap: what is given back
    /// costs a fault a page when it is wanted again.
    package static func apply(spareByteCount: Int32 = spareByteCountDefault) {
        ckafka_tune_malloc(spareByteCount)
    }
}
