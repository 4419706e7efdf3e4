import Crypto
import Testing

@Suite struct `Hashes and codes` {
    @Test(arguments: [
        ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
    ])
    func `SHA-1 is that of FIPS 180`(message: String, digest: String) {
        #expect(Hash.sha1(Array(message.utf8)) == bytes(digest))
    }

    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ])
    func `SHA-256 is that of FIPS 180`(message: String, digest: String) {
        #expect(Hash.sha256(Array(message.utf8)) == bytes(digest))
    }

    @Test(arguments: [[], [0], [5, 0, 64, 1, 200]])
    func `SHA-256 of many texts is that of each`(counts: [Int]) {
        var bytes: [UInt8] = []
        var ends: [Int] = []
        var expected: [UInt8] = []
        for (index, count) in counts.enumerated() {
            let text = [UInt8](repeating: UInt8(index), count: count)
            bytes += text
            ends.append(bytes.count)
            expected += Hash.sha256(text)
        }
        var digests: [UInt8] = [1, 2, 3]
        Hash.sha256(each: bytes, ends: ends, into: &digests)
        #expect(digests == expected)
    }

    /// RFC 4231, cases 1, 2, 3 and 6.
    static let codes: [(key: [UInt8], message: [UInt8], code: String)] = [
        (
            [UInt8](repeating: 0x0b, count: 20), Array("Hi There".utf8),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            [UInt8](repeating: 0xaa, count: 20), [UInt8](repeating: 0xdd, count: 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        ),
        (
            [UInt8](repeating: 0xaa, count: 131),
            Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
    ]

    @Test(arguments: codes)
    func `HMAC-SHA-256 is that of RFC 4231`(key: [UInt8], message: [UInt8], code: String) {
        let hmac = HMACSHA256(key: key)
        #expect(hmac.code(for: message) == bytes(code))
        // The key was prepared once: what came before must leave nothing behind.
        _ = hmac.code(for: [1, 2, 3])
        #expect(hmac.code(for: message) == bytes(code))
    }

    @Test func `an empty key and an empty message have a code`() {
        #expect(
            HMACSHA256(key: []).code(for: [])
                == bytes("b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
        )
    }

    @Test func `random bytes differ from draw to draw`() {
        #expect(RandomBytes.next(count: 32).count == 32)
        #expect(RandomBytes.next(count: 32) != RandomBytes.next(count: 32))
        #expect(RandomBytes.next(count: 0).isEmpty)
    }
}
