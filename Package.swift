// swift-tools-version: 6.2
import PackageDescription

/// Every Swift target of ours: complete checking, explicit imports, warnings are errors.
let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
]
/// Optimized in debug builds too, with all checks but `assert`: where the tests' simulations and stores of
/// a million keys spend most of their time, and little code.
let busy: [SwiftSetting] = strict + [.unsafeFlags(["-O"], .when(configuration: .debug))]
/// Indirect calls and returns land only where one is meant, on processors that check it.
#if arch(x86_64)
    let protectedBranches: [CSetting] = [.unsafeFlags(["-fcf-protection=full"])]
#else
    let protectedBranches: [CSetting] = []
#endif
/// Our C: a warning is an error there too, and what overruns a buffer ends the process.
let strictC: [CSetting] =
    [
        .unsafeFlags([
            "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
            "-fstack-protector-strong",
        ]),
        // It needs optimization, and says so by a warning where there is none.
        .unsafeFlags(["-D_FORTIFY_SOURCE=3"], .when(configuration: .release)),
    ] + protectedBranches
/// Every program of ours: its table of library functions is filled and closed before it starts.
let relocated: [LinkerSetting] = [
    .unsafeFlags(["-Xlinker", "-z", "-Xlinker", "relro", "-Xlinker", "-z", "-Xlinker", "now"])
]

/// For `Deploy/fuzz.sh`, which sets it: the fuzz targets as one program, and no other program.
let isFuzzing = Context.environment["TOLLWAY_FUZZ"] != nil

func systemLibrary(_ name: String, pkgConfig: String, debian: String) -> Target {
    .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([debian])])
}

func shim(_ name: String, over system: [String]) -> Target {
    .target(
        name: name,
        dependencies: system.map { .init(stringLiteral: $0) },
        cSettings: strictC
    )
}

/// `data` are files that become part of the program: workers have no Foundation to find them by.
func library(
    _ name: String,
    _ dependencies: [String] = [],
    data: [String] = [],
    settings: [SwiftSetting] = strict
) -> Target {
    .target(
        name: name,
        dependencies: dependencies.map { .init(stringLiteral: $0) },
        resources: data.map { .embedInCode($0) },
        swiftSettings: settings
    )
}

func program(_ name: String, _ dependencies: [String]) -> Target {
    .executableTarget(
        name: name,
        dependencies: dependencies.map { .init(stringLiteral: $0) },
        swiftSettings: strict,
        linkerSettings: relocated
    )
}

/// The operator's command; only tests can import a program, so the fuzzer has its readers as a library.
func command(_ name: String, _ dependencies: [String], readers: [String]) -> Target {
    isFuzzing
        ? .target(
            name: name,
            dependencies: ["Telemetry", "TokenDomain", "TokenWire"],
            sources: readers,
            swiftSettings: strict
        ) : program(name, dependencies)
}

/// One folder, compiled in two ways: its targets read what a fuzzer makes up, or the corpora once.
func fuzzing(_ dependencies: [String]) -> Target {
    isFuzzing
        ? .executableTarget(
            name: "fuzz",
            dependencies: dependencies.map { .init(stringLiteral: $0) },
            path: "Tests/FuzzTests",
            exclude: ["CorpusTests.swift", "Corpora"],
            swiftSettings: strict
        )
        : .testTarget(
            name: "FuzzTests",
            dependencies: dependencies.map { .init(stringLiteral: $0) },
            exclude: ["Fuzzer.swift", "Corpora"],
            swiftSettings: strict
        )
}

func tests(
    _ name: String,
    _ dependencies: [String],
    resources: [Resource] = [],
    exclude: [String] = []
) -> Target {
    .testTarget(
        name: name,
        dependencies: dependencies.map { .init(stringLiteral: $0) },
        exclude: exclude,
        resources: resources,
        swiftSettings: strict
    )
}

let package = Package(
    name: "tollway",
    products: isFuzzing
        ? [.executable(name: "tollway-fuzz", targets: ["fuzz"])]
        : [
            .executable(name: "tollway-ingest", targets: ["ingest"]),
            .executable(name: "tollway-decode", targets: ["decode"]),
            .executable(name: "tollway-dedupe", targets: ["dedupe"]),
            .executable(name: "tollway-report", targets: ["report"]),
            .executable(name: "tollway-notifications", targets: ["notifications"]),
            .executable(name: "tollway-purchases", targets: ["purchases"]),
            .executable(name: "tollway-bench", targets: ["bench"]),
            .executable(name: "tollway", targets: ["tollway"]),
        ],
    targets: [
        // The system's libraries, by name.
        systemLibrary("CLibrdkafka", pkgConfig: "rdkafka", debian: "librdkafka-dev"),
        systemLibrary("CLibcurl", pkgConfig: "libcurl", debian: "libcurl4-openssl-dev"),
        systemLibrary("CLibnghttp2", pkgConfig: "libnghttp2", debian: "libnghttp2-dev"),
        systemLibrary("CLibcrypto", pkgConfig: "libcrypto", debian: "libssl-dev"),
        systemLibrary("CLibssl", pkgConfig: "libssl", debian: "libssl-dev"),
        systemLibrary("CLibmicrohttpd", pkgConfig: "libmicrohttpd", debian: "libmicrohttpd-dev"),
        systemLibrary("CLibrocksdb", pkgConfig: "rocksdb", debian: "librocksdb-dev"),

        // Our C over the libraries. C never calls Swift.
        shim("CKafka", over: ["CLibrdkafka"]),
        shim("CHTTPClient", over: ["CLibcurl", "CLibnghttp2", "CLibssl", "CLibcrypto"]),
        shim("CCrypto", over: ["CLibcrypto"]),
        shim("CStore", over: ["CLibrocksdb"]),
        // HTTP in, over sockets alone.
        shim("CHTTPServer", over: []),
        // SIMD pays: base64url and JSON string scanning.
        shim("CText", over: []),
        // No part of the pipeline: the embedded broker.
        shim("CLocalKafka", over: ["CLibrdkafka"]),
        // No part of the pipeline: what the bench compares with, on the bare libraries.
        shim(
            "CBench",
            over: ["CLibrdkafka", "CLibmicrohttpd", "CLibcurl", "CLibcrypto", "CLibssl"]
        ),

        // The rules, pure.
        library("TokenDomain", data: ["Purchases/sales-codes.txt"]),

        // A Swift face for each C target; they know bytes, not tokens.
        // Kafka asks the library itself for what needs no callback: metadata, admin requests.
        library("Kafka", ["CKafka", "CLibrdkafka"], settings: busy),
        library("HTTPServer", ["CHTTPServer"]),
        library("HTTPClient", ["CHTTPClient"]),
        library("Crypto", ["CCrypto"]),
        library("StateStore", ["CStore", "Kafka"], settings: busy),

        library("TokenWire", ["TokenDomain", "CText"], settings: busy),
        library("AppStoreAPI", ["TokenDomain", "TokenWire", "HTTPClient", "Crypto"]),
        library("Telemetry", ["HTTPServer"]),
        library(
            "StageRuntime",
            ["Kafka", "StateStore", "TokenDomain", "TokenWire", "Telemetry", "Crypto"]
        ),
        library("AppleSimulator", ["HTTPServer", "HTTPClient", "Crypto"]),
        // A Kafka of one's own, for trials and tests: no worker has it.
        library("LocalKafka", ["CLocalKafka", "Kafka"]),

        // The six workers, in the order of the pipeline.
        program(
            "ingest",
            [
                "StageRuntime", "HTTPServer", "Crypto", "Kafka", "TokenDomain", "TokenWire",
                "Telemetry", "AppStoreAPI",
            ]
        ),
        program("decode", ["StageRuntime", "Kafka", "TokenDomain", "TokenWire", "Telemetry"]),
        program(
            "dedupe",
            [
                "StageRuntime", "StateStore", "Kafka", "TokenDomain", "TokenWire", "Telemetry",
                "Crypto",
            ]
        ),
        program(
            "report",
            [
                "StageRuntime", "StateStore", "Kafka", "TokenDomain", "TokenWire", "Telemetry",
                "AppStoreAPI", "Crypto", "HTTPClient",
            ]
        ),
        program(
            "notifications",
            [
                "StageRuntime", "Kafka", "TokenDomain", "TokenWire", "Telemetry", "AppStoreAPI",
                "Crypto",
            ]
        ),
        program(
            "purchases",
            [
                "StageRuntime", "StateStore", "Kafka", "TokenDomain", "TokenWire", "Telemetry",
                "Crypto",
            ]
        ),

        // The operator's command.
        command(
            "tollway",
            [
                "StageRuntime", "StateStore", "Kafka", "TokenDomain", "TokenWire", "Telemetry",
                "AppStoreAPI", "Crypto", "HTTPClient", "HTTPServer", "AppleSimulator", "LocalKafka",
            ],
            readers: [
                "CommandFailure.swift", "ExitCode.swift", "InputFile.swift",
                "PropertyListReader.swift", "BinaryPropertyList.swift",
                "DeadLetters/DeadLetterAction.swift", "DeadLetters/DeadLetterPosition.swift",
                "DeadLetters/MergePatch.swift",
                "DeadLetters/InstantText.swift", "DeadLetters/PositionSet.swift",
                "DeadLetters/ReplayPlanFile.swift",
            ]
        ),

        // The yardsticks: how fast the workers are, beside the least that their libraries could do.
        program(
            "bench",
            [
                "CBench", "StageRuntime", "Kafka", "LocalKafka", "TokenDomain", "TokenWire",
                "Telemetry", "Crypto", "HTTPClient",
            ]
        ),

        // Measured by hand, with Tests/Benchmarks/decode.sh.
        .executableTarget(
            name: "decode-benchmark",
            dependencies: ["TokenWire", "TokenDomain", "CText"],
            path: "Tests/Benchmarks/DecodeBenchmark",
            swiftSettings: strict
        ),

        // Readers of what others wrote, under a fuzzer: Deploy/fuzz.sh.
        .target(
            name: "CFuzz",
            dependencies: ["CHTTPServer", "CText"],
            path: "Tests/CFuzz",
            cSettings: strictC
        ),
        fuzzing([
            "CFuzz", "tollway", "AppStoreAPI", "Crypto", "TokenDomain", "TokenWire",
        ]),

        tests("CryptoTests", ["Crypto"], resources: [.copy("Fixtures")]),
        // What every log promises, for whoever has one.
        .target(
            name: "RecordLogContract",
            dependencies: ["Kafka"],
            path: "Tests/RecordLogContract",
            swiftSettings: strict
        ),
        // What a test does to the files of a Kafka.
        .target(
            name: "KafkaFaults",
            dependencies: ["Kafka"],
            path: "Tests/KafkaFaults",
            swiftSettings: strict
        ),
        tests(
            "KafkaTests",
            [
                "CKafka", "CLibrdkafka", "Kafka", "KafkaFaults", "LocalKafka", "RecordLogContract",
            ]
        ),
        tests("StateStoreTests", ["CLibrocksdb", "StateStore", "TokenDomain"]),
        tests("HTTPServerTests", ["HTTPServer"]),
        // Name servers that do not answer, for all that is linked with the tests.
        .target(name: "SilentNames", path: "Tests/SilentNames"),
        tests(
            "HTTPClientTests",
            ["HTTPClient", "HTTPServer", "SilentNames"],
            exclude: ["hpack.py", "scripted_http2.py"]
        ),
        tests("TokenDomainTests", ["TokenDomain"]),
        tests(
            "AppStoreAPITests",
            ["AppStoreAPI", "Crypto", "HTTPClient", "HTTPServer", "TokenDomain", "TokenWire"]
        ),
        tests(
            "TokenWireTests",
            ["TokenWire", "TokenDomain", "CText", "MessageExamples"],
            resources: [.copy("Fixtures")]
        ),
        // One message of every kind, for the tests of readers, writers and schemas.
        .target(
            name: "MessageExamples",
            dependencies: ["TokenDomain", "TokenWire", "Crypto"],
            path: "Tests/MessageExamples",
            swiftSettings: strict
        ),
        .testTarget(
            name: "ProtocolTests",
            dependencies: [
                "MessageExamples", "decode", "dedupe", "tollway", "StageRuntime", "Kafka",
                "Crypto", "TokenDomain", "TokenWire",
            ],
            exclude: ["validate.py"],
            swiftSettings: strict
        ),
        tests("DecodeTests", ["decode", "StageRuntime", "Kafka", "TokenDomain", "TokenWire"]),
        // What the tests stand on: a cluster in memory, driven from a seed.
        .target(
            name: "Simulation",
            dependencies: ["Kafka", "StateStore", "StageRuntime", "TokenDomain", "AppStoreAPI"],
            path: "Tests/Simulation",
            swiftSettings: busy
        ),
        tests(
            "StageRuntimeTests",
            [
                "StageRuntime", "Simulation", "RecordLogContract", "Kafka", "LocalKafka",
                "StateStore", "Telemetry", "TokenDomain", "TokenWire",
            ]
        ),
        tests(
            "IngestTests",
            [
                "ingest", "HTTPServer", "HTTPClient", "Kafka", "LocalKafka", "TokenDomain",
                "TokenWire", "Telemetry", "Crypto", "StageRuntime", "AppStoreAPI",
                "MessageExamples",
            ],
            resources: [.copy("Fixtures")]
        ),
        tests(
            "DedupeTests",
            [
                "dedupe", "StageRuntime", "StateStore", "Kafka", "TokenDomain", "TokenWire",
            ]
        ),
        tests(
            "ReportTests",
            [
                "report", "Simulation", "AppStoreAPI", "Crypto", "HTTPClient", "StageRuntime",
                "StateStore", "Kafka", "TokenDomain", "TokenWire", "Telemetry", "MessageExamples",
            ]
        ),
        tests(
            "PurchasesTests",
            [
                "purchases", "tollway", "Simulation", "AppleSimulator", "StageRuntime",
                "StateStore", "Kafka", "TokenDomain", "TokenWire", "Telemetry",
            ]
        ),
        tests(
            "AppleSimulatorTests",
            ["AppleSimulator", "HTTPServer", "HTTPClient", "Crypto"],
            resources: [.copy("Fixtures")]
        ),
        tests("TelemetryTests", ["Telemetry", "HTTPClient"]),
        tests("ConfigurationTests", ["StageRuntime", "Kafka", "TokenDomain"]),
        tests(
            "TollwayTests",
            [
                "tollway", "AppStoreAPI", "Crypto", "HTTPClient", "HTTPServer", "Kafka",
                "LocalKafka", "CLibrdkafka", "dedupe", "purchases",
                "StageRuntime",
                "Telemetry", "TokenDomain", "TokenWire",
            ]
        ),
        tests(
            "BenchTests",
            ["bench", "Kafka", "LocalKafka", "StageRuntime", "TokenDomain", "TokenWire"]
        ),
        tests(
            "NotificationsTests",
            [
                "notifications", "AppStoreAPI", "Crypto", "Kafka", "LocalKafka", "StageRuntime",
                "Telemetry", "TokenDomain", "TokenWire", "MessageExamples",
            ]
        ),
        tests(
            "PipelineTests",
            [
                "ingest", "decode", "dedupe", "report", "notifications", "purchases",
                "Simulation", "StageRuntime", "StateStore", "Kafka", "TokenDomain", "TokenWire",
                "Telemetry", "AppStoreAPI", "AppleSimulator", "Crypto", "HTTPServer",
            ]
        ),
        // The built programs as processes, on a real Kafka, with faults while they run.
        tests(
            "SystemTests",
            [
                "tollway", "ingest", "decode", "dedupe", "report", "notifications", "purchases",
                "StageRuntime", "StateStore", "Kafka", "KafkaFaults", "LocalKafka", "TokenDomain",
                "TokenWire",
                "Crypto",
            ],
            exclude: ["browser.py", "clock.c"]
        ),
        tests(
            "RepositoryTests",
            [
                "StageRuntime", "Telemetry", "Kafka", "TokenDomain", "ingest", "notifications",
                "purchases", "report",
            ]
        ),
    ]
)
