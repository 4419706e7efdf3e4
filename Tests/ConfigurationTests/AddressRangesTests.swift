import Testing

@testable import StageRuntime

@Suite struct `Ranges of addresses` {
    @Test(arguments: [
        ("17.0.0.0/8", "17.1.2.3", true), ("17.0.0.0/8", "16.255.255.255", false),
        ("17.0.0.0/8", "18.0.0.0", false), ("17.0.0.0/8", "::ffff:17.1.2.3", true),
        ("17.0.0.0/8", "1100::", false), ("0.0.0.0/0", "203.0.113.1", true),
        ("0.0.0.0/0", "::1", false), ("::/0", "2620:149::1", true), ("::/0", "17.0.0.1", false),
        ("10.0.0.128/25", "10.0.0.127", false), ("10.0.0.128/25", "10.0.0.128", true),
        ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1/32,2620:149::/32", "2620:149:ffff::1", true),
        ("2620:149::/33", "2620:149:8000::", false), ("17.0.0.0/8", "", false),
        ("17.0.0.0/8", "17.0.0", false),
    ])
    func `hold an address or not`(text: String, address: String, holds: Bool) throws {
        let ranges = try #require(AddressRanges(text))
        #expect(ranges.contains(address) == holds)
    }

    @Test(arguments: [
        "", ",", "17.0.0.0/8,", "17.0.0.0/33", "17.0.0.0/-1", "17.0.0.0/", "17.0.0.0/8/8", "17/8",
        "17.1.0.0/8", "::1/129", "apple.com", "17.0.0.0/8, 18.0.0.0/8", "17.0.0.0/+8",
        Array(repeating: "17.0.0.0/8", count: AddressRanges.countMax + 1).joined(separator: ","),
    ])
    func `are refused where they are none, or mean another range than they say`(text: String) {
        #expect(AddressRanges(text) == nil)
    }
}
