import Crypto
import Testing

@Suite struct `UUIDs as text` {
    @Test(arguments: [
        // RFC 9562, A.4.
        (
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com",
            "2ed6657d-e927-568b-95e1-2665a8aea6a2"
        ),
        // A request identifier of ours.
        (
            "e48679a5-3e90-4844-bd7e-490c1e5f8947", "1c2d3e4f-0000-4000-8000-00000000a001/1",
            "fd8f1974-afe9-524e-a2ca-de0086624109"
        ),
    ])
    func `a name in a name space has one UUID`(
        space: String,
        name: String,
        uuid: String
    ) throws {
        let namespace = try #require(UUIDText.bytes(of: space))
        #expect(UUIDText.v5(namespace: namespace, name: name) == uuid)
    }

    @Test func `a random one says its version and variant`() {
        #expect(
            UUIDText.v4(random: [UInt8](repeating: 0, count: 16))
                == "00000000-0000-4000-8000-000000000000"
        )
        #expect(
            UUIDText.v4(random: [UInt8](repeating: 0xff, count: 16))
                == "ffffffff-ffff-4fff-bfff-ffffffffffff"
        )
    }

    @Test func `of random words no two are the same`() {
        var random = RandomWords()
        // More than are fetched at once.
        let count = 2_000
        let texts = (0..<count).map { _ in UUIDText.v4(using: &random) }
        #expect(Set(texts).count == count)
        #expect(texts.allSatisfy { UUIDText.bytes(of: $0).map { $0[6] >> 4 } == 4 })
        #expect(texts.allSatisfy { UUIDText.bytes(of: $0).map { $0[8] >> 6 } == 2 })
    }

    @Test func `either case is read`() {
        let lower = UUIDText.bytes(of: "e48679a5-3e90-4844-bd7e-490c1e5f8947")
        #expect(lower?.count == 16)
        #expect(lower == UUIDText.bytes(of: "E48679A5-3E90-4844-BD7E-490C1E5F8947"))
    }

    @Test(arguments: [
        "", "e48679a5", "e48679a53e904844bd7e490c1e5f8947", "e48679a5-3e90-4844-bd7e-490c1e5f894g",
        "e48679a5-3e90-4844-bd7e-490c1e5f89471", "e48679a5-3e90-4844-bd7-e490c1e5f8947",
        "{48679a5-3e90-4844-bd7e-490c1e5f8947}", "e48679a5-3e90-4844-bd7e-490c1e5f89é",
    ])
    func `another form is none`(text: String) {
        #expect(UUIDText.bytes(of: text) == nil)
    }
}
