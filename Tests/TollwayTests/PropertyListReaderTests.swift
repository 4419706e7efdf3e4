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
