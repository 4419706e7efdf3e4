internal import CKafka

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
                start: fault.start,
                end: fault.end
            )
        case CKAFKA_FAULT_OURS: self = .ours(message: message)
        default: self = .unusable(message: message)
        }
    }

    /// Kafka's name for one of its error codes.
    static func name(ofCode code: Int16) -> String {
        unsafe String(cString: ckafka_code_name(Int32(code)))
    }
}
