internal import Glibc
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Which dead letters are meant: one language in every verb.
///
/// Different options must all hold; of one option given twice, either.
struct DeadLetterFilter {
    var stages = DeadLetters.stages
    var reasons: [[UInt8]] = []
    var codes: [[UInt8]] = []
    /// Whole, or their first digits.
    var fingerprints: [[UInt8]] = []
    var keys: [[UInt8]] = []
    var texts: [[UInt8]] = []
    var apps: [AppName] = []
    /// Both names of each that the apps file has.
    var namesByFile: [AppName] = []
    /// Apps asked for of which only one name is known.
    var appsOfOneName: [AppName] = []
    var environments: [AppleEnvironment] = []
    /// Ids of tokens.
    var tokens: [String] = []
    /// UNIX milliseconds, inclusive.
    var since: Int64?
    /// UNIX milliseconds, exclusive.
    var until: Int64?
    var partitions: [ClosedRange<Int64>] = []
    var offsets: [ClosedRange<Int64>] = []
    var attempts: [ClosedRange<Int64>] = []
    /// As it was asked, with times made absolute: for plans and the audit.
    var words: [String] = []

    var text: String { words.isEmpty ? "all" : words.joined(separator: " ") }

    /// Whether the value must be read to know.
    var needsSubject: Bool { !apps.isEmpty || !environments.isEmpty || !tokens.isEmpty }

    /// The first offset that may match, of every partition.
    var offsetMin: Int64 { offsets.map(\.lowerBound).min() ?? 0 }

    /// What headers, key and bytes say; the subject is asked apart.
    func matches(_ deadLetter: DeadLetterRecord, in batch: RecordBatch) -> Bool {
        let record = deadLetter.record
        let arena = batch.arena.span
        guard Self.holds(partitions, Int64(record.partition)), Self.holds(offsets, record.offset),
            deadLetter.failedAt >= since ?? .min, deadLetter.failedAt < until ?? .max,
            Self.isOne(of: reasons, arena.extracting(deadLetter.headers[.reason].indices)),
            Self.isOne(of: codes, arena.extracting(deadLetter.headers[.code].indices))
        else {
            return false
        }
        if !fingerprints.isEmpty {
            let fingerprint = arena.extracting(deadLetter.headers[.fingerprint].indices)
            guard fingerprints.contains(where: { fingerprint.starts(with: $0) }) else {
                return false
            }
        }
        guard keys.isEmpty || !record.key.isAbsent,
            Self.isOne(of: keys, arena.extracting(record.key.indices)),
            attempts.isEmpty
                || Self.holds(attempts, deadLetter.headers.number(.attempts, in: arena))
        else {
            return false
        }
        return texts.isEmpty
            || texts.contains { text in
                [record.value, record.key, deadLetter.headers[.message]].contains { range in
                    Self.contains(text, in: arena.extracting(range.indices))
                }
            }
    }

    func matches(_ subject: DeadLetterSubject) -> Bool {
        matchesButForApp(subject) && (apps.isEmpty || matchesApp(subject))
    }

    /// A name from the apps file counts only where the one that was asked for is not stated: that may
    /// say another app.
    private func matchesApp(_ subject: DeadLetterSubject) -> Bool {
        let (number, bundle) = (subject.appAppleID, subject.bundleID)
        return apps.contains { $0.names(appAppleID: number, bundleID: bundle) }
            || number == nil && namesByFile.contains { $0.names(appAppleID: nil, bundleID: bundle) }
            || bundle == nil && namesByFile.contains { $0.names(appAppleID: number, bundleID: nil) }
    }

    /// Whether it may be of an app that was asked for, as it gives no name but the other one.
    ///
    /// A sale has either name, a request for an app account token the bundle id.
    func mayMatch(_ subject: DeadLetterSubject) -> Bool {
        guard !appsOfOneName.isEmpty, !matches(subject), matchesButForApp(subject) else {
            return false
        }
        let bundleCount = appsOfOneName.count { if case .bundle = $0 { true } else { false } }
        let numberCount = appsOfOneName.count - bundleCount
        // As many of either kind: each app was given by both names.
        return subject.appAppleID == nil
            ? subject.bundleID != nil && numberCount > bundleCount
            : subject.bundleID == nil && bundleCount > numberCount
    }

    private func matchesButForApp(_ subject: DeadLetterSubject) -> Bool {
        guard tokens.isEmpty || tokens.contains(where: { $0 == subject.externalPurchaseID }) else {
            return false
        }
        guard !environments.isEmpty else {
            return true
        }
        return subject.environment.map { environments.contains($0) } ?? false
    }

    /// What a person must know of those that ``mayMatch(_:)``; nil where there are none.
    static func otherNames(_ count: Int) -> String? {
        count == 0
            ? nil
            : "\(CountText.of(count, "other dead letter")) may be of that app and would match, but"
                + " give its other name alone: set \(Setting.appsFile.fullName) to a file that has"
                + " the app, or give --app twice, once by each name"
    }

    /// Takes the other name of each app from the apps file, where one is set that has the app.
    mutating func nameApps(by file: AppsFile?) {
        for name in apps {
            guard let app = file?.apps.first(where: name.names) else {
                appsOfOneName.append(name)
                continue
            }
            namesByFile += [.number(app.appAppleID), .bundle(BundleID(app.bundleID))]
        }
    }

    private static func holds(_ ranges: [ClosedRange<Int64>], _ value: Int64) -> Bool {
        ranges.isEmpty || ranges.contains { $0.contains(value) }
    }

    private static func isOne(of texts: [[UInt8]], _ value: Span<UInt8>) -> Bool {
        guard !texts.isEmpty else {
            return true
        }
        for text in texts where value.isEqual(to: text) {
            return true
        }
        return false
    }

    private static func contains(_ text: [UInt8], in bytes: Span<UInt8>) -> Bool {
        guard bytes.count >= text.count else {
            return false
        }
        return unsafe bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else {
                return false
            }
            var start = 0
            let last = bytes.count - text.count
            while start <= last {
                let found = unsafe memchr(base + start, Int32(text[0]), last - start + 1)
                guard let found = unsafe found else {
                    return false
                }
                start = unsafe UnsafeRawPointer(found) - base
                if unsafe memcmp(base + start, text, text.count) == 0 {
                    return true
                }
                start += 1
            }
            return false
        }
    }
}
