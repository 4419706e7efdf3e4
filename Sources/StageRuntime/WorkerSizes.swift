internal import Kafka
internal import StateStore
internal import TokenDomain

/// How much a worker holds at once, where its records ask for more or less than those of others.
struct WorkerSizes {
    var prefetch = KafkaSettings.Prefetch()
    /// See ``WorkerLoop/Limits/recordCountMax``.
    var recordCountMax = WorkerLoop.Limits().recordCountMax
    /// See ``WorkerLoop/Limits/outputByteCountMax``.
    var outputByteCountMax = WorkerLoop.Limits().outputByteCountMax
    /// See ``MallocTuning/apply(spareByteCount:)``.
    var spareByteCount = MallocTuning.spareByteCountDefault
    /// Changes that stores collect before they write a file.
    var writeBufferByteCount = StoreShared.writeBufferByteCountDefault
    /// Of memory a key; with more, fewer files are read in vain for a key.
    var fileFilterBits = StoreShared.fileFilterBitsDefault

    init(of worker: Worker) {
        switch worker {
        case .dedupe:
            // Half of what twelve partitions have, so that half as much waits in memory.
            prefetch.responseByteCountMax = 768 << 10
            // Kafka takes longer for a transaction than the loop does to judge as much, or less long, as
            // others want the processors: with room beyond a transaction neither waits for the other.
            // With 20,000 it has 230 MB at ten million tokens, and 192 are its goal.
            recordCountMax = Filling.recordCountMax * 5 / 4
            spareByteCount = 4 << 20
            // What the larger transactions take is saved here; a file has a tenth less for it.
            writeBufferByteCount = 18 << 20
        case .decode:
            // As dedupe.
            recordCountMax = Filling.recordCountMax * 5 / 4
        case .purchases:
            // An answer waits behind the sales that were fetched before it, and with each one a sale
            // is under way: with 1,000 two of five had left the memory when theirs came.
            prefetch.recordCountMin = 200
            prefetch.responseByteCountMax = 256 << 10
            // A sale is some 4 KB of changelog and outputs, fifteen times as much as a token, and is
            // under way for as long as two transactions take: twice as many cost 20 MB.
            recordCountMax = 1_000
            outputByteCountMax = 4 << 20
            // Few sales are looked at again while they are so new. With 8 MiB a partition wrote a file of
            // 0.7 MB each time, and a sale cost a twentieth more.
            writeBufferByteCount = 10 << 20
            fileFilterBits = 10
        case .report:
            // While a token's account is made, nothing is sent to Apple.
            recordCountMax = 2_000
            // Each report reads an account that is there, in one of two dozen files: with 5 two more were
            // read in vain for it.
            fileFilterBits = 10
        default: break
        }
    }
}
