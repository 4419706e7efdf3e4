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

    /// Only what the top object holds is built.
    @Test func `is read whatever lies in it that nothing holds`() {
        let unheld: [[UInt8]] = [[0xc1, 1], [0xa1, 3], [0xaf, 0x10, 0xff]]
        #expect(
            PropertyListReader.members(of: list([[0xd1, 1, 1], text] + unheld))
                == ["a": .text("a")]
        )
    }

    /// As many references as the product of the two, if each object is looked at.
    @Test(.timeLimit(.minutes(1)))
    func `is read in a time that many objects at the place of one long list do not stretch`() {
        func bigEndian(_ number: Int, _ byteCount: Int) -> [UInt8] {
            (0..<byteCount).map { UInt8(number >> (8 * (byteCount - 1 - $0)) & 0xff) }
        }
        let objectCount = 60_000
        var bytes = Array("bplist00".utf8)
        // References of two bytes, places of three.
        bytes += [0xd1, 0, 1, 0, 1]
        bytes += text
        let place = bytes.count
        bytes += [0xaf, 0x11]
        bytes += bigEndian(objectCount, 2)
        bytes += (0..<objectCount).flatMap { _ in bigEndian(1, 2) }
        let table = bytes.count
        bytes += bigEndian(8, 3)
        bytes += bigEndian(13, 3)
        bytes += (2..<objectCount).flatMap { _ in bigEndian(place, 3) }
        bytes += [0, 0, 0, 0, 0, 0, 3, 2]
        for number in [objectCount, 0, table] {
            bytes += bigEndian(number, 8)
        }
        #expect(PropertyListReader.members(of: bytes) == ["a": .text("a")])
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
