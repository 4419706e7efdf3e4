internal import CBench
internal import Glibc
internal import Kafka

/// The programs that the bench compares with and loads with, each run as a process of its own:
/// `tollway-bench copy NAME=VALUE…`.
enum BenchPart: String, CaseIterable {
    case copy, server, load, idle, answer, apple, reports

    private static let messageByteCount = 512

    var usesKafka: Bool {
        switch self {
        case .copy, .server, .answer: true
        case .load, .idle, .apple, .reports: false
        }
    }

    /// The settings that any of them takes; what begins with `kafka.` goes to librdkafka.
    private static let names: Set<String> = [
        "group", "from", "to", "changelog", "batch", "material", "bytes", "key", "skip", "file",
        "port", "connections", "seconds", "url", "certificate", "count", "http1",
    ]

    /// Runs until the process is ended; `load` and `reports` until all requests are accepted.
    func run(_ operands: [String]) throws {
        let settings = try Self.read(operands)
        var message = [CChar](repeating: 0, count: Self.messageByteCount)
        let status =
            switch self {
            case .copy: copy(settings, &message)
            case .server: serve(settings, &message)
            case .load: load(settings, &message)
            case .idle: idle(settings, &message)
            case .answer: try answer(settings)
            case .apple: apple(settings, &message)
            case .reports: reports(settings, &message)
            }
        guard status == 0 else {
            let text = message.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
            throw BenchFailure(
                code: "bench.\(rawValue)",
                "\(rawValue): \(String(decoding: text, as: UTF8.self))"
            )
        }
    }

    private struct Settings {
        var values: [String: String] = [:]
        /// As the C side reads them: name and value in turn.
        var kafka: [CChar] = []
        var kafkaValues: [String: String] = [:]

        func text(_ name: String) -> String { values[name] ?? "" }
        func number(_ name: String) -> Int { values[name].flatMap { Int($0) } ?? 0 }
    }

    private static func read(_ operands: [String]) throws(BenchFailure) -> Settings {
        var settings = Settings()
        for operand in operands {
            let parts = operand.split(
                separator: "=",
                maxSplits: 1,
                omittingEmptySubsequences: false
            )
            .map(String.init)
            guard parts.count == 2, names.contains(parts[0]) || parts[0].hasPrefix("kafka.") else {
                throw .usage(
                    "bad_value",
                    "\"\(operand)\" is no setting of a part: one of "
                        + names.sorted().map { "\($0)=…" }.joined(separator: ", ")
                        + " or kafka.<setting>=…"
                )
            }
            if parts[0].hasPrefix("kafka.") {
                let name = String(parts[0].dropFirst("kafka.".count))
                settings.kafkaValues[name] = parts[1]
                for text in [name, parts[1]] {
                    settings.kafka += text.utf8.map { CChar(bitPattern: $0) } + [0]
                }
            } else {
                settings.values[parts[0]] = parts[1]
            }
        }
        settings.kafka.append(0)
        return settings
    }

    private func copy(_ settings: Settings, _ message: inout [CChar]) -> Int32 {
        var options = unsafe cbench_copy()
        unsafe options.batch_record_max = max(settings.number("batch"), 1)
        unsafe options.batch_wait_ms = 100
        unsafe options.is_skipping = Int32(clamping: settings.number("skip"))
        unsafe options.has_changelog = Int32(clamping: settings.number("changelog"))
        var targets: [CChar] = []
        for target in settings.text("to").split(separator: ",") {
            targets += target.utf8.map { CChar(bitPattern: $0) } + [0]
        }
        targets.append(0)
        return unsafe settings.text("group").withCString { group in
            unsafe settings.text("from").withCString { source in
                unsafe settings.text("material").withCString { material in
                    unsafe targets.withUnsafeBufferPointer { targets in
                        unsafe settings.kafka.withUnsafeBufferPointer { kafka in
                            unsafe options.settings = kafka.baseAddress
                            unsafe options.group = group
                            unsafe options.instance = group
                            unsafe options.source = source
                            unsafe options.targets = targets.baseAddress
                            unsafe options.material = material
                            return unsafe cbench_copy_run(&options, &message, message.count)
                        }
                    }
                }
            }
        }
    }

    private func answer(_ settings: Settings) throws -> Int32 {
        var extra = settings.kafkaValues
        let servers = extra.removeValue(forKey: "bootstrap.servers") ?? ""
        try BenchAnswers.run(
            from: settings.text("from"),
            to: settings.text("to"),
            KafkaSettings(bootstrapServers: servers, clientID: "tollway-bench", extra: extra)
        )
        return 0
    }

    private func serve(_ settings: Settings, _ message: inout [CChar]) -> Int32 {
        let count = message.count
        return unsafe settings.text("to").withCString { target in
            unsafe settings.kafka.withUnsafeBufferPointer { kafka in
                var options = unsafe cbench_server()
                unsafe options.settings = kafka.baseAddress
                unsafe options.target = target
                unsafe options.record_byte_count = settings.number("bytes")
                unsafe options.key_byte_count = settings.number("key")
                return unsafe cbench_server_run(&options, STDOUT_FILENO, &message, count)
            }
        }
    }

    /// Prints the result: `{"accepted":…,"refused":…,"microseconds":…,"latency":[p50,p99,p999]}`.
    private func load(_ settings: Settings, _ message: inout [CChar]) -> Int32 {
        let count = message.count
        var result = cbench_load_result()
        let status = unsafe settings.text("file").withCString { file in
            var options = unsafe cbench_load()
            unsafe options.file = file
            unsafe options.port = UInt16(clamping: settings.number("port"))
            unsafe options.connection_count = UInt32(clamping: settings.number("connections"))
            unsafe options.deadline_ms = Int32(clamping: max(settings.number("seconds"), 1) * 1_000)
            return unsafe cbench_load_run(&options, &result, &message, count)
        }
        Console.write(
            "{\"accepted\":\(result.accepted_count),\"refused\":\(result.refused_count),"
                + "\"microseconds\":\(result.elapsed_us),"
                + "\"latency\":[\(result.p500_us),\(result.p990_us),\(result.p999_us)]}\n"
        )
        return status
    }

    private func idle(_ settings: Settings, _ message: inout [CChar]) -> Int32 {
        let count = message.count
        return unsafe cbench_idle_run(
            UInt16(clamping: settings.number("port")),
            UInt32(clamping: settings.number("connections")),
            STDOUT_FILENO,
            &message,
            count
        )
    }

    private func apple(_ settings: Settings, _ message: inout [CChar]) -> Int32 {
        let count = message.count
        return unsafe settings.text("file").withCString { file in
            unsafe settings.text("certificate").withCString { certificate in
                var options = unsafe cbench_apple()
                unsafe options.arrivals = file
                unsafe options.certificate = certificate
                return unsafe cbench_apple_run(&options, STDOUT_FILENO, &message, count)
            }
        }
    }

    /// Prints the result: `{"accepted":…,"microseconds":…,"processorMicroseconds":…}`.
    private func reports(_ settings: Settings, _ message: inout [CChar]) -> Int32 {
        let count = message.count
        var result = cbench_reports_result()
        let status = unsafe settings.text("url").withCString { url in
            unsafe settings.text("certificate").withCString { certificate in
                var options = unsafe cbench_reports()
                unsafe options.url = url
                unsafe options.certificate = certificate
                unsafe options.report_count = settings.number("count")
                unsafe options.flight_count = settings.number("connections")
                unsafe options.is_http1 = Int32(clamping: settings.number("http1"))
                return unsafe cbench_reports_run(&options, &result, &message, count)
            }
        }
        Console.write(
            "{\"accepted\":\(result.accepted_count),\"microseconds\":\(result.elapsed_us),"
                + "\"processorMicroseconds\":\(result.processor_us)}\n"
        )
        return status
    }
}
