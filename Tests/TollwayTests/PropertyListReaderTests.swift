import Testing
import TokenDomain

@testable import tollway

@Suite struct `A property list` {
    /// Binary: objects, where each begins, and the trailer.
    private func list(_ objects: [[UInt8]]) -> [UInt8] {
        var bytes = Array("bplist00".utf8)
        var offsets: [UInt8] = []
        for object in objects {
            offsets.append(UInt8(bytes.count))
            bytes += object
        }
        let table = UInt8(bytes.count)
        bytes += offsets + [0, 0, 0, 0, 0, 0, 1, 1]
        for number in [UInt8(objects.count), 0, table] {
            bytes += [0, 0, 0, 0, 0, 0, 0, number]
        }
        return bytes
    }

    private let text: [UInt8] = [0x51, 0x61]

    @Test func `is read where it is a dictionary`() {
        #expect(
            PropertyListReader.members(of: list([[0xd1, 1, 2], text, [0x51, 0x62]]))
                == ["a": .text("b")]
        )
    }

    /// Binary and XML: `true`, an integer of 1 and a real of 1.
    @Test(
        arguments: [
            ([0x09], "<true/>", PropertyValue.flag(true)),
            ([0x08], "<false/>", .flag(false)),
            ([0x10, 1], "<integer>1</integer>", .other),
            ([0x22, 0x3f, 0x80, 0, 0], "<real>1.0</real>", .other),
        ] as [([UInt8], String, PropertyValue)]
    )
    func `has flags, and numbers that are none`(
        binary: [UInt8],
        xml: String,
        value: PropertyValue
    ) {
        let members = PropertyListReader.members(of: list([[0xd1, 1, 2], text, binary]))
        #expect(members == ["a": value])
        let document = "<plist version=\"1.0\"><dict><key>a</key>\(xml)</dict></plist>"
        #expect(PropertyListReader.members(of: Array(document.utf8)) == ["a": value])
    }

    @Test func `has no sets, which Foundation cannot hand over`() {
        #expect(PropertyListReader.members(of: list([[0xc1, 1], text])) == nil)
        #expect(PropertyListReader.members(of: list([[0xd1, 1, 2], text, [0xc1, 1]])) == nil)
    }

    /// Each list holds the next one twice: a reader that follows copies 2 to the 40th objects.
    @Test func `is none where it is small, and too large once copied out`() {
        let lists = (0..<40).map { [0xa2, UInt8($0 + 3), UInt8($0 + 3)] as [UInt8] }
        let objects = [[0xd1, 1, 2], text] + lists + [text]
        #expect(PropertyListReader.members(of: list(objects)) == nil)
        #expect(PropertyListReader.members(of: list([[0xd1, 1, 2], text] + lists[38...])) == nil)
    }

    @Test func `is none where it holds itself, or holds too many containers in one another`() {
        #expect(PropertyListReader.members(of: list([[0xd1, 1, 2], text, [0xa1, 2]])) == nil)
        func nested(_ count: Int) -> [UInt8] {
            list([[0xd1, 1, 2], text] + (0..<count).map { [0xa1, UInt8($0 + 3)] } + [text])
        }
        #expect(PropertyListReader.members(of: nested(60)) != nil)
        #expect(PropertyListReader.members(of: nested(70)) == nil)
    }

    /// What a comment says is no end of an element.
    @Test(arguments: ["<!--", "<![CDATA[", "<?a", "<!-->"])
    func `is none where elements are nested too deep behind others that only seem to end`(
        start: String
    ) {
        let end = ["<![CDATA[": "]]>", "<?a": "?>"][start] ?? "-->"
        func document(_ count: Int) -> [UInt8] {
            let ends = String(repeating: "</array>", count: count)
            let lists = String(repeating: "<array>", count: count)
            return Array(
                ("<plist><dict><key>a</key>" + lists + start + ends + end + lists + ends + ends
                    + "</dict></plist>").utf8
            )
        }
        #expect(PropertyListReader.members(of: document(40)) == nil)
        #expect(PropertyListReader.members(of: Array("<plist></a></a><dict/>".utf8)) == nil)
    }

    @Test func `is none where its trailer lies`() {
        let good = list([[0xd1, 1, 2], text, [0x51, 0x62]])
        #expect(PropertyListReader.members(of: Array("bplist00".utf8)) == nil)
        for index in good.count - 32..<good.count {
            for value: UInt8 in [0, 0x7f, 0xff] {
                var bytes = good
                bytes[index] = value
                _ = PropertyListReader.members(of: bytes)
            }
        }
    }
}
