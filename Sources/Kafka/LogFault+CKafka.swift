internal import CKafka
internal import CLibrdkafka

extension LogFault {
    /// What the C side says went wrong.
    init(_ fault: ckafka_fault) {
        let code = CText.text(of: fault.name)
        let said = CText.text(of: fault.message)
        let message = said.isEmpty ? code : said
        switch Int(fault.kind) {
        case CKAFKA_FAULT_UNAVAILABLE: self = .unavailable(code: code, message: message)
        case CKAFKA_FAULT_FENCED: self = .fenced(message: message)
        case CKAFKA_FAULT_MISCONFIGURED: self = .misconfigured(message: message)
        case CKAFKA_FAULT_TOO_LARGE:
            self = .recordTooLarge(
                outputIndex: Int(fault.index),
                byteCount: Int(fault.byte_count),
                byteCountMax: Int(fault.byte_count_max)
            )
        case CKAFKA_FAULT_LOST:
            self = .recordsLost(
                TopicPartition(topic: said, partition: fault.partition),
                position: fault.position,
                start: -1,
                end: -1
            )
        case CKAFKA_FAULT_OURS: self = .ours(message: message)
        default: self = .unusable(message: message)
        }
    }

    /// Calls the C side, and throws what it says went wrong where it does not return 0.
    @inline(__always)
    static func check(_ call: (inout ckafka_fault) -> Int32) throws(LogFault) {
        var fault = ckafka_fault()
        guard call(&fault) == 0 else {
            throw LogFault(fault)
        }
    }

    /// The same for a call that makes something.
    static func made(
        _ make: (inout ckafka_fault) -> OpaquePointer?
    ) throws(LogFault) -> OpaquePointer {
        var fault = ckafka_fault()
        guard let made = unsafe make(&fault) else {
            throw LogFault(fault)
        }
        return unsafe made
    }

    /// What a failed answer means for the asker; by default in the library's own words.
    init(answer code: rd_kafka_resp_err_t, _ text: String? = nil) {
        var fault = ckafka_fault()
        unsafe ckafka_fail_answer(&fault, code.rawValue, text)
        self.init(fault)
    }

    /// What a code means, in librdkafka's words.
    static func text(ofCode code: rd_kafka_resp_err_t) -> String {
        unsafe String(cString: rd_kafka_err2str(code))
    }

    /// Kafka's name for one of its error codes.
    static func name(ofCode code: Int16) -> String { name(ofCode: Int32(code)) }

    /// Kafka's name for one of its error codes, or librdkafka's for one of its own.
    static func name(ofCode code: Int32) -> String {
        unsafe String(cString: rd_kafka_err2name(rd_kafka_resp_err_t(code)))
    }
}
