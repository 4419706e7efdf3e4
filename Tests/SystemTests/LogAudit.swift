import Foundation
import TokenDomain

/// Reads every line that the programs of a run have logged.
///
/// No secret may be in one: the keys of the run's own files, raw customers and their pseudonyms,
/// and anything that is long enough to be a token or a signature.
struct LogAudit {
    /// The shortest token of the stream is several times as long; ids, hashes and names of ours are
    /// shorter.
    private static let secretRunLengthMin = 64
    /// One message, by one process, in a minute: what may come oftener is limited.
    private static let repeatCountMax = 120
    private static let secretFiles = ["ingest-keys", "customer-key"]

    private var canaries: [String] = []
    private(set) var findings: [String] = []
    private(set) var lineCount = 0

    /// Reads a run's folder, with its logs and keys.
    init(folder: URL) throws {
        let files = try FileManager.default.contentsOfDirectory(
            at: folder,
            includingPropertiesForKeys: nil
        )
        for file in files where Self.secretFiles.contains(file.lastPathComponent) {
            canaries += Self.texts(try Data(contentsOf: file))
        }
        for file in files where file.pathExtension == "p8" {
            // Any line of a key is a piece of it.
            canaries += String(decoding: try Data(contentsOf: file), as: UTF8.self)
                .split(separator: "\n").map(String.init)
        }
        canaries += ["customer", "the reader of the page", "Bearer ", "c1.", "eyJ"]
        for worker in Worker.allCases {
            // A storm runs several of each, by number.
            let logs = files.filter {
                $0.pathExtension == "log" && $0.lastPathComponent.hasPrefix(worker.rawValue)
            }
            if logs.isEmpty {
                findings.append("\(worker.rawValue) has no log")
            }
            for log in logs {
                let text = String(decoding: try Data(contentsOf: log), as: UTF8.self)
                read(text, of: worker.rawValue)
            }
        }
    }

    /// For the test of the test.
    init(canaries: [String]) {
        self.canaries = canaries
    }

    /// A binary key may stand in a log as text, in hexadecimal digits or in base64.
    private static func texts(_ data: Data) -> [String] {
        let text = String(decoding: data, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        let digits = data.map { String(format: "%02x", $0) }.joined()
        return [text, digits, data.base64EncodedString()].filter { $0.count >= 16 }
    }

    mutating func read(_ text: String, of worker: String) {
        var counts: [String: Int] = [:]
        for line in text.split(separator: "\n") {
            lineCount += 1
            guard let object = Self.object(line), let message = object["message"] as? String,
                let time = object["time"] as? String, object["worker"] as? String == worker,
                ["info", "warning", "error"].contains(object["level"] as? String)
            else {
                findings.append("\(worker) logged what is no line of its own: \(line.prefix(200))")
                continue
            }
            // The field that says whether customers are taken is no customer, nor is a fault of one.
            let read = line.replacing("\"customers\":", with: "")
                .replacing("\"decode.bad_customer\"", with: "")
            for canary in canaries where read.contains(canary) {
                findings.append("\(worker) logged \(canary.prefix(12))…: \(line.prefix(200))")
            }
            if Self.longestRun(line) >= Self.secretRunLengthMin {
                findings.append("\(worker) logged what may be a token: \(line.prefix(200))")
            }
            counts[message + time.prefix(16), default: 0] += 1
        }
        for (message, count) in counts where count > Self.repeatCountMax {
            findings.append("\(worker) said \"\(message)\" \(count) times in a minute")
        }
    }

    private static func object(_ line: Substring) -> [String: Any]? {
        do {
            return try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        } catch {
            return nil
        }
    }

    /// DeadLetters and digits as base64url has them, in one run.
    private static func longestRun(_ line: Substring) -> Int {
        var longest = 0
        var run = 0
        for byte in line.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                UInt8(ascii: "+"), UInt8(ascii: "="):
                run += 1
                longest = max(longest, run)
            default:
                run = 0
            }
        }
        return longest
    }
}
