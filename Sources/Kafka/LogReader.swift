internal import CKafka

/// Partitions read by hand, through a client that other readers may share.
@safe final class LogReader {
    private let client: LogClient
    private var open: OpaquePointer?

    init(client: LogClient, topics: [String]) {
        self.client = client
        unsafe open = ckafka_reader_new(client.handle, CText.list(topics))
    }

    deinit {
        close()
    }

    /// What does not end in time goes on by itself, and its client's handle with it.
    func close(deadlineMilliseconds: Int = LogClient.closeMilliseconds) {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        unsafe ckafka_reader_close(handle, Int32(clamping: deadlineMilliseconds))
    }

    func start(topic: Int, partition: Int32, offset: Int64) throws(LogFault) {
        try LogFault.check { fault in
            unsafe ckafka_reader_start(open, Int32(topic), partition, offset, &fault)
        }
    }

    func read(
        into batch: inout RecordBatch,
        recordCountMax: Int,
        waitMilliseconds: Int
    ) throws(LogFault) {
        var shown = unsafe ckafka_batch()
        try LogFault.check { fault in
            unsafe ckafka_reader_poll(
                open,
                max(recordCountMax, 0),
                RecordBatch.byteCountMax,
                Int32(clamping: waitMilliseconds),
                &shown,
                &fault
            )
        }
        unsafe batch.append(shown)
    }
}
