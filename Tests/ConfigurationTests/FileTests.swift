import Foundation
import StageRuntime
import Testing

@Suite struct `A file of secrets` {
    private let key = "0123456789abcdef"

    private func read(_ content: String, mode: Int = 0o600) throws -> [UInt8] {
        let file = try TemporaryFile(content, mode: mode)
        return try SecretFile.read(path: file.path, setting: "TOLLWAY_X")
    }

    @Test func `loses one line end and nothing else`() throws {
        #expect(try read(key) == Array(key.utf8))
        #expect(try read("\(key)\n") == Array(key.utf8))
        #expect(try read("\(key)\r\n") == Array(key.utf8))
        #expect(try read(" \(key)\n\n") == Array(" \(key)\n".utf8))
    }

    @Test func `holds at least sixteen bytes`() throws {
        #expect(throws: ConfigurationFault.self) { try read(String(key.dropLast()) + "\n") }
    }

    @Test(arguments: [0o604, 0o644, 0o666])
    func `is refused where everybody can read it`(mode: Int) throws {
        let fault = #expect(throws: ConfigurationFault.self) { try read(key, mode: mode) }
        #expect(fault?.sentence.contains("everybody can read it") == true)
        #expect(fault?.sentence.contains(key) == false)
    }

    @Test(arguments: [
        ("/nonexistent/file", "no such file"), ("/", "no regular file"),
        ("/dev/zero", "no regular file"),
    ])
    func `is named with what is wrong`(path: String, reason: String) {
        let fault = #expect(throws: ConfigurationFault.self) {
            try SecretFile.read(path: path, setting: "TOLLWAY_X")
        }
        #expect(fault?.sentence.contains(reason) == true)
        #expect(fault?.sentence.hasPrefix("TOLLWAY_X names \"\(path)\"") == true)
    }

    @Test func `may be as large as its limit and no larger`() throws {
        let largest = String(repeating: "a", count: SecretFile.byteCountMax)
        #expect(try read(largest).count == SecretFile.byteCountMax)
        #expect(throws: ConfigurationFault.self) { try read(largest + "a") }
    }

    @Test(arguments: [
        ("0123456789abcdef\n", 1), ("0123456789abcdef\r\n\nfedcba9876543210", 2),
        ("0123456789abcdef\nfedcba9876543210\n0123456789abcdeg\n", nil), ("", nil), ("\n\n", nil),
        ("short\n", nil), ("0123456789 abcdef\n", nil), ("0123456789abcdéf\n", nil),
    ])
    func `holds one or two bearer keys`(content: String, count: Int?) throws {
        let file = try TemporaryFile(content)
        guard let count else {
            #expect(throws: ConfigurationFault.self) {
                try SecretFile.readBearerKeys(path: file.path)
            }
            return
        }
        #expect(try SecretFile.readBearerKeys(path: file.path).count == count)
    }
}

@Suite struct `The apps file` {
    private let whole = """
        {"apps":[{"appAppleId":1,"bundleId":"a","issuerId":"i","keyId":"k",
        "privateKeyFile":"k.p8","reportsPerSecond":2.5},{"appAppleId":2,"bundleId":"b",
        "issuerId":"i","keyId":"k","privateKeyFile":"/k.p8"}]}
        """

    private func load(_ content: String, needsKeys: Bool = false) throws -> AppsFile {
        let file = try TemporaryFile(content)
        return try AppsFile.load(file.path, needsKeys: needsKeys)
    }

    @Test func `gives each app its key and its rate`() throws {
        let file = try TemporaryFile(whole)
        let apps = try AppsFile.load(file.path, needsKeys: true)
        let folder = try #require(file.path.range(of: "/", options: .backwards)).upperBound
        let first = try #require(apps.app(appAppleID: 1))
        #expect(first.keys.map(\.privateKeyFile) == [file.path[..<folder] + "k.p8"])
        #expect(first.reportsPerSecond == 2.5)
        let second = try #require(apps.app(bundleID: "b"))
        #expect(second.keys.map(\.privateKeyFile) == ["/k.p8"])
        #expect(second.reportsPerSecond == AppsFile.reportsPerSecondDefault)
        #expect(apps.app(appAppleID: 3) == nil)
    }

    @Test func `lets an app have two keys, in the order in which they are tried`() throws {
        let text = """
            {"apps":[{"appAppleId":1,"bundleId":"a","keys":[
            {"issuerId":"i","keyId":"NEW","privateKeyFile":"/new.p8"},
            {"issuerId":"j","keyId":"OLD","privateKeyFile":"/old.p8"}]}]}
            """
        let app = try #require(try load(text, needsKeys: true).app(appAppleID: 1))
        #expect(app.keys.map(\.keyID) == ["NEW", "OLD"])
        #expect(app.keys.map(\.issuerID) == ["i", "j"])
        #expect(app.keys.map(\.privateKeyFile) == ["/new.p8", "/old.p8"])
    }

    private static let key = #"{"issuerId":"i","keyId":"K","privateKeyFile":"k"}"#

    @Test(arguments: [
        ("\"keys\":[]", "1 to 2 \"keys\""),
        ("\"keys\":[\(key),\(key)]", "names the key K twice"),
        ("\"keys\":[\(key),\(key),\(key)]", "1 to 2 \"keys\""),
        ("\"keys\":[\(key)],\"keyId\":\"L\"", "a key beside them"),
        ("\"keys\":[{\"keyId\":\"K\"}]", "key 1 of app 1 lacks issuerId"),
        ("\"keys\":[{\"keyID\":\"K\"}]", "did you mean keyId?"),
        ("\"keys\":[\(key)],\"keys\":[]", "repeated"),
        ("\"keys\":\(key)", "wrong type"),
    ])
    func `refuses a list of keys that is not clear`(members: String, reason: String) {
        let fault = #expect(throws: ConfigurationFault.self) {
            try load(#"{"apps":[{"appAppleId":1,"bundleId":"a",\#(members)}]}"#)
        }
        #expect(fault?.sentence.contains(reason) == true, "\(fault?.sentence ?? "")")
    }

    @Test func `needs keys only where somebody signs with them`() throws {
        let text = #"{"apps":[{"appAppleId":1,"bundleId":"a"}]}"#
        #expect(try load(text).apps[0].keys.isEmpty)
        #expect(throws: ConfigurationFault.self) { try load(text, needsKeys: true) }
    }

    @Test(arguments: [
        ("", "not valid JSON"), ("[]", "not a JSON object"), ("{}", "\"apps\""),
        (#"{"apps":[]}"#, "\"apps\""), (#"{"apps":{}}"#, "wrong type"),
        (#"{"apps":[{"appAppleId":1,"bundleId":"a"}],"apps":[]}"#, "repeated"),
        (#"{"apps":[{"appAppleId":1}]}"#, "needs a bundleId"),
        (#"{"apps":[{"bundleId":"a"}]}"#, "entry 1 needs an appAppleId"),
        (#"{"apps":[{"appAppleId":0,"bundleId":"a"}]}"#, "above zero"),
        (#"{"apps":[{"appAppleId":"1","bundleId":"a"}]}"#, "wrong type"),
        (#"{"apps":[{"appAppleId":1,"bundleId":"a","keyID":"k"}]}"#, "did you mean keyId?"),
        (#"{"apps":[{"appAppleId":1,"bundleId":"a","keyId":"k"}]}"#, "lacks issuerId"),
        (#"{"apps":[{"appAppleId":1,"bundleId":"a","reportsPerSecond":0}]}"#, "rate"),
        (#"{"apps":[{"appAppleId":1,"bundleId":"a","reportsPerSecond":1001}]}"#, "rate"),
        (
            #"{"apps":[{"appAppleId":1,"bundleId":"a","reportsPerSecond":0.0009}]}"#,
            "from 0.001 to 1000"
        ),
        (#"{"apps":[{"appAppleId":1,"bundleId":"a","reportsPerSecond":"5"}]}"#, "rate"),
        (
            #"{"apps":[{"appAppleId":1,"bundleId":"a"},{"appAppleId":1,"bundleId":"b"}]}"#,
            "app 1 is there twice"
        ),
        (
            #"{"apps":[{"appAppleId":1,"bundleId":"a"},{"appAppleId":2,"bundleId":"a"}]}"#,
            "bundle a is there twice"
        ),
    ])
    func `is refused with what is wrong in it`(content: String, reason: String) throws {
        let fault = #expect(throws: ConfigurationFault.self) { try load(content) }
        #expect(fault?.sentence.contains(reason) == true, "\(fault?.sentence ?? "")")
        #expect(fault?.setting == "TOLLWAY_APPS_FILE")
    }
}
