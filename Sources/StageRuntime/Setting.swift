package import TokenDomain

/// A program of ours, as far as its configuration goes.
package enum Program: Hashable, Sendable {
    case worker(Worker)
    /// The operator's command.
    case tollway

    package var name: String {
        switch self {
        case .worker(let worker): worker.rawValue
        case .tollway: "tollway"
        }
    }
}

/// Every setting by its name, which in the environment follows `TOLLWAY_`.
///
/// Settings of librdkafka, `TOLLWAY_KAFKA_<UPPER_SNAKE>`, come beside them.
///
/// One environment serves all programs: a setting that another one uses is no error.
package enum Setting: String, CaseIterable, Sendable {
    case topicPrefix = "TOPIC_PREFIX"
    case delivery = "DELIVERY"
    case instance = "INSTANCE"
    case stateDirectory = "STATE_DIR"
    case adminListen = "ADMIN_LISTEN"
    case adminHosts = "ADMIN_HOSTS"
    case ingestListen = "INGEST_LISTEN"
    case ingestHosts = "INGEST_HOSTS"
    case ingestKeysFile = "INGEST_KEYS_FILE"
    case ingestCustomerKeyFile = "INGEST_CUSTOMER_KEY_FILE"
    case ingestNotificationSources = "INGEST_NOTIFICATION_SOURCES"
    case appsFile = "APPS_FILE"
    case appleProductionURL = "APPLE_PRODUCTION_URL"
    case appleSandboxURL = "APPLE_SANDBOX_URL"
    case appleRootsFile = "APPLE_ROOTS_FILE"
    case reportHold = "REPORT_HOLD"
    case reportUnrecognizedGrace = "REPORT_UNRECOGNIZED_GRACE"
    case reportDeadlineDays = "REPORT_DEADLINE_DAYS"
    case reportMonthlyRepeat = "REPORT_MONTHLY_REPEAT"
    case reportUnknownReminders = "REPORT_UNKNOWN_REMINDERS"
    case purchasesTokenWindow = "PURCHASES_TOKEN_WINDOW"
    case purchasesTokenWait = "PURCHASES_TOKEN_WAIT"
    case exchangeRatesFile = "EXCHANGE_RATES_FILE"
    /// Ours, although it begins as those do that are passed through.
    case kafkaSingleBroker = "KAFKA_SINGLE_BROKER"

    package static let prefix = "TOLLWAY_"
    package static let kafkaPrefix = "TOLLWAY_KAFKA_"
    package static let kafkaBootstrapServers = "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"

    /// As it stands in the environment.
    package var fullName: String { Self.prefix + rawValue }

    /// What holds where it is not set; nil where there is no value at all, or where the machine or
    /// the worker gives it (`INSTANCE`, `ADMIN_LISTEN`).
    package var defaultText: String? {
        switch self {
        case .topicPrefix: "tollway."
        case .delivery: "exactly-once"
        case .stateDirectory: "./state"
        case .ingestListen: "127.0.0.1:8080"
        case .appleProductionURL: "https://api.storekit.apple.com"
        case .appleSandboxURL: "https://api.storekit-sandbox.apple.com"
        case .reportHold: "24h"
        case .reportUnrecognizedGrace: "15m"
        case .reportDeadlineDays: "10"
        case .reportMonthlyRepeat: "on"
        case .reportUnknownReminders: UnknownReminders.report.rawValue
        case .purchasesTokenWindow: "7d"
        case .purchasesTokenWait: "24h"
        case .kafkaSingleBroker: "no"
        case .instance, .adminListen, .adminHosts, .ingestHosts, .ingestKeysFile,
            .ingestCustomerKeyFile, .ingestNotificationSources, .appsFile, .appleRootsFile,
            .exchangeRatesFile:
            nil
        }
    }

    /// One line for `tollway config print --help` and friends.
    package var summary: String {
        switch self {
        case .topicPrefix: "what every topic, group and transactional id starts with"
        case .delivery: "exactly-once, or at-least-once for the embedded broker"
        case .instance: "this replica's name, stable over restarts; default: the host name"
        case .stateDirectory: "where dedupe, report and purchases keep their local state"
        case .adminListen: "probes and metrics; default: 127.0.0.1:9401 to 9406, by worker"
        case .adminHosts: "host names that the admin port answers to, besides addresses; by commas"
        case .ingestListen: "where ingest takes HTTP"
        case .ingestHosts: "host names that ingest answers to, besides addresses; by commas"
        case .ingestKeysFile: "bearer keys, one a line, two at most; none: loopback only"
        case .ingestCustomerKeyFile: "the key that replaces customers by their codes"
        case .ingestNotificationSources:
            "who may send notifications, as 17.0.0.0/8 and commas; none: anybody"
        case .appsFile: "the apps and their keys for Apple, as JSON"
        case .appleProductionURL: "Apple's production host"
        case .appleSandboxURL: "Apple's sandbox host"
        case .appleRootsFile: "trusted roots of Apple's signatures, as PEM"
        case .reportHold: "how long a primary token waits for its line items, a duplicate twice"
        case .reportUnrecognizedGrace: "how long an unknown token in a notice waits"
        case .reportDeadlineDays: "days after which a token without expiry must be reported"
        case .reportMonthlyRepeat: "on or off: report active custom-link tokens every month"
        case .reportUnknownReminders:
            "report or note: a reminder about an unknown token"
        case .purchasesTokenWindow:
            "how old a token without expiry may be at its sale; or days: 7d"
        case .purchasesTokenWait: "how long a sale waits for a token before it is not owed"
        case .exchangeRatesFile:
            "CSV of date,from,to,rate for sales without one; read as it changes"
        case .kafkaSingleBroker:
            "yes for a trial on less than three brokers; else no"
        }
    }
}

/// What a reminder about an unknown token asks for.
package enum UnknownReminders: String, CaseIterable, Sendable {
    /// UNRECOGNIZED_TOKEN, once it is proven that the token is unknown.
    case report
    /// Nothing: it is remembered for when the token comes.
    case note
}
