import Testing
import TokenDomain

@Suite struct `A bundle id` {
    @Test(arguments: [
        ("com.example.K", "com.example.\u{212A}"), ("com.\u{e9}", "com.e\u{301}"),
        ("com.example.a", "com.example.A"), ("com.example", "com.example."),
    ])
    func `is another where one byte differs`(one: String, other: String) {
        #expect(BundleID(one) != BundleID(other))
        #expect(Set([BundleID(one), BundleID(other), BundleID(one)]).count == 2)
    }

    @Test func `is the same where all bytes are`() {
        #expect(BundleID("com.example") == BundleID("com" + ".example"))
        #expect(BundleID("com.example").hashValue == BundleID("com" + ".example").hashValue)
    }
}
