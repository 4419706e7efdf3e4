import Testing

@testable import TokenWire

struct `An integer in JSON` {
    @Test func `has the digits that Swift gives it, at every length`() {
        var values: [Int64] = [0, .min, .max, .min + 1, .max - 1]
        var power: Int64 = 1
        for _ in 0..<18 {
            power *= 10
            values += [power - 1, power, power + 1, power / 2, power + power / 20, power / 3 * 2]
        }
        values += values.map { $0 == .min ? 0 : -$0 }
        for value in values {
            var writer = JSONWriter()
            writer.beginArray()
            writer.integer(value)
            writer.integer(value)
            writer.endArray()
            #expect(String(decoding: writer.bytes, as: UTF8.self) == "[\(value),\(value)]")
        }
    }
}

struct `A member in JSON` {
    @Test(arguments: [0, 7, -7, 12_345_678, 123_456_789, .max, .min] as [Int64])
    func `has its number behind its name`(value: Int64) {
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("first", value)
        writer.field("second", value)
        writer.endObject()
        let expected = #"{"first":\#(value),"second":\#(value)}"#
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }
}
