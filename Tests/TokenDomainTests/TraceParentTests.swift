import Testing
import TokenDomain

@Suite struct `A traceparent` {
    private static let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test func `is passed on as it came`() throws {
        let trace = try #require(TraceParent(Self.good))
        #expect(trace.text == Self.good)
        #expect(trace.traceID == "4bf92f3577b34da6a3ce929d0e0e4736")
    }

    @Test(arguments: [
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes-later",
    ])
    func `of a later version is read as far as it is known`(text: String) {
        #expect(TraceParent(text)?.text == Self.good)
    }

    @Test(arguments: [
        "", "00", "x", good.uppercased(), good + " ", " " + good, good + "-00",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"
            + String(repeating: "a", count: 512),
    ])
    func `that is not valid is none`(text: String) {
        #expect(TraceParent(text) == nil)
    }

    @Test func `that is made is valid, whatever chance gives`() {
        for byte: UInt8 in [0, 1, 0x7f, 0xff] {
            let made = TraceParent(
                random: [UInt8](repeating: byte, count: TraceParent.randomByteCount)
            )
            #expect(TraceParent(made.text) == made)
        }
        #expect(TraceParent(random: Array(0..<24)).traceID == "000102030405060708090a0b0c0d0e0f")
    }
}
