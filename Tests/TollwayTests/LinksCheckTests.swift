import Foundation
import Testing

@Suite struct `tollway links check` {
    private let list: [String: Any] = [
        "SKExternalPurchaseLink": ["de": "http://example.com/buy"],
        "SKExternalPurchaseMultiLink": ["de": ["https://example.com/buy"]],
        "CFBundleVersion": 7, "LSRequiresIPhoneOS": true, "Date": Date(),
    ]

    private func write(
        _ list: Any,
        in folder: TemporaryFolder,
        name: String = "Info.plist",
        format: PropertyListSerialization.PropertyListFormat = .xml
    ) throws -> String {
        let data = try PropertyListSerialization.data(
            fromPropertyList: list,
            format: format,
            options: 0
        )
        return try folder.file(name, data).path
    }

    @Test(arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func `finds what is wrong in both forms of a plist`(
        format: PropertyListSerialization.PropertyListFormat
    ) throws {
        let folder = try TemporaryFolder()
        let file = try write(list, in: folder, format: format)
        let run = try TollwayProcess.run(["links", "check", file, "-o", "json"])
        #expect(run.exitCode == 1)
        let findings = try #require(try run.object()["findings"] as? [[String: Any]])
        let rules = findings.map { "\($0["severity"] ?? "") \($0["rule"] ?? "")" }
        #expect(rules.sorted() == ["error L6", "error L7", "warning L13"])
        let scheme = try #require(findings.first { $0["rule"] as? String == "L7" })
        #expect(scheme["key"] as? String == "SKExternalPurchaseLink")
        #expect(scheme["country"] as? String == "de")
        #expect(scheme["link"] as? String == "http://example.com/buy")
        #expect((scheme["repair"] as? String)?.isEmpty == false)
        let table = try TollwayProcess.run(["links", "check", file])
        #expect(table.exitCode == 1)
        #expect(
            table.output.contains("error L7 SKExternalPurchaseLink de http://example.com/buy: ")
        )
    }

    @Test func `is content with what Apple is content with`() throws {
        let folder = try TemporaryFolder()
        let links = [
            "SKExternalPurchaseMultiLink": ["de": ["https://a.example", "https://b.example"]]
        ]
        let file = try write(links, in: folder)
        let rights = ["com.apple.developer.storekit.external-purchase-link": true]
        let entitlements = try write(rights, in: folder, name: "e.plist")
        let options = ["--entitlements", entitlements, "--submitted", file]
        let good = try TollwayProcess.run(["links", "check", "--streaming", file] + options)
        #expect(good.exitCode == 0)
        #expect(good.output == "no findings\n")
        #expect(try TollwayProcess.run(["links", "check", file] + options).exitCode == 1)
    }

    @Test func `has nothing to say where neither key is`() throws {
        let folder = try TemporaryFolder()
        let file = try write(["CFBundleVersion": "1"], in: folder)
        let run = try TollwayProcess.run(["links", "check", file, "-o", "json"])
        #expect(run.exitCode == 3)
        #expect(try run.errorCode() == "links.no_keys")
    }

    @Test func `knows what is no property list`() throws {
        let folder = try TemporaryFolder()
        let binary = try PropertyListSerialization.data(
            fromPropertyList: list,
            format: .binary,
            options: 0
        )
        let deep = "<plist>" + String(repeating: "<array>", count: 100_000)
        for content in [
            Data(), Data("hello".utf8), Data("{ a = b; }".utf8), Data("{\"a\":1}".utf8),
            Data("<plist><string>a</string></plist>".utf8), Data("<?xml".utf8), Data(deep.utf8),
            Data([0xff, 0xfe, 0x00]), Data("bplist00".utf8), binary.prefix(40),
            binary.prefix(20) + Data(repeating: 0xff, count: 40),
        ] {
            let file = try folder.file("Info.plist", Data(content)).path
            let run = try TollwayProcess.run(["links", "check", file, "-o", "json"])
            #expect(run.exitCode == 1, "\(content.prefix(20))")
            #expect(try run.errorCode() == "links.not_a_plist")
        }
    }

    /// Whatever its size: what looks at it before Foundation does reads bytes.
    @Test(arguments: [String.Encoding.utf16, .utf16LittleEndian, .utf16BigEndian, .utf32])
    func `asks for UTF-8 in the place of UTF-16 and UTF-32`(encoding: String.Encoding) throws {
        let folder = try TemporaryFolder()
        for elementCount in [1, 100] {
            let keys = (0..<elementCount).map { "<key>\($0)</key><true/>" }.joined()
            let text = "<?xml version=\"1.0\"?><plist version=\"1.0\"><dict>\(keys)</dict></plist>"
            let data = try #require(text.data(using: encoding))
            let file = try folder.file("Info.plist", data).path
            let run = try TollwayProcess.run(["links", "check", file, "-o", "json"])
            #expect(run.exitCode == 1)
            #expect(try run.errorCode() == "links.not_a_plist")
            #expect(run.output.contains("save it as UTF-8"), "\(run.output)")
        }
    }

    /// A program, an archive: zeros at its start make no text of it.
    @Test(arguments: [[0x7f, 0x45, 0x00, 0x01], [0x00, 0x00, 0x00, 0x00]] as [[UInt8]])
    func `does not ask for UTF-8 where a file is no text`(start: [UInt8]) throws {
        let folder = try TemporaryFolder()
        let file = try folder.file("Info.plist", Data(start)).path
        let run = try TollwayProcess.run(["links", "check", file, "-o", "json"])
        #expect(try run.errorCode() == "links.not_a_plist")
        #expect(!run.output.contains("UTF-8"), "\(run.output)")
    }

    @Test func `asks for a file that can be read`() throws {
        for arguments in [["/nonexistent"], ["/"], []] {
            let run = try TollwayProcess.run(["links", "check"] + arguments)
            #expect(run.exitCode == 2)
        }
    }

    @Test func `outlives a binary list that refers to itself`() throws {
        // One array whose only element is itself: marker A1, reference 0.
        var bytes = Array("bplist00".utf8) + [0xa1, 0x00, 0x08]
        bytes += [0, 0, 0, 0, 0, 0, 1, 1]
        bytes += [0, 0, 0, 0, 0, 0, 0, 1] + [0, 0, 0, 0, 0, 0, 0, 0] + [0, 0, 0, 0, 0, 0, 0, 10]
        let folder = try TemporaryFolder()
        let file = try folder.file("Info.plist", Data(bytes)).path
        let run = try TollwayProcess.run(["links", "check", file, "-o", "json"])
        #expect(run.exitCode == 1)
    }
}
