import StateStore
import Testing
import TokenDomain

@testable import StageRuntime
@testable import dedupe

@Suite struct `A record of the dedupe changelog` {
    private static let identity = DedupeKey(high: 0x0102_0304_0506_0708, low: 0xfffe_fdfc_fbfa_f9f8)
    private static let period = DedupeKey(high: 0, low: .max)

    @Test(arguments: [nil, period])
    func `is read back as it was written`(period: DedupeKey?) throws {
        let record = DedupeRecord(
            identity: Self.identity,
            period: period,
            externalPurchaseID: Array("SANDBOX_\"1\"é".utf8),
            keysExpire: Timestamp(milliseconds: .max)
        )
        let keys = try #require(DedupeRecord.keys(inChangelogKey: record.changelogKey))
        #expect(keys.identity == Self.identity)
        #expect(keys.period == period)
        let read = try DedupeRecord(
            identity: keys.identity,
            period: keys.period,
            changelogValue: record.changelogValue()
        )
        #expect(read == record)
    }

    @Test func `shows its keys as text and its value as JSON`() {
        let record = DedupeRecord(
            identity: Self.identity,
            period: Self.period,
            externalPurchaseID: Array("id".utf8),
            keysExpire: Timestamp(milliseconds: 12)
        )
        #expect(
            String(decoding: record.changelogKey, as: UTF8.self)
                == "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w"
        )
        #expect(
            String(decoding: record.changelogValue(), as: UTF8.self)
                == #"{"externalPurchaseId":"id","keysExpire":12}"#
        )
    }

    @Test(arguments: [
        "", "AQIDBAUGBwj__v38-_r5-", "AQIDBAUGBwj__v38-_r5-A.", "AQIDBAUGBwj__v38-_r5-AA",
        "AQIDBAUGBwj//v38+/r5+A", "AQIDBAUGBwj__v38-_r5-B",
        "AQIDBAUGBwj__v38-_r5-A-AAAAAAAAAAD__________w",
        "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________wA",
    ])
    func `has no other key`(key: String) {
        #expect(DedupeRecord.keys(inChangelogKey: Array(key.utf8)) == nil)
    }

    @Test(arguments: [
        ("no key", #"{"externalPurchaseId":"id","keysExpire":1}"#),
        ("AQIDBAUGBwj__v38-_r5-A", ""),
        ("AQIDBAUGBwj__v38-_r5-A", #"{"externalPurchaseId":"id"}"#),
        ("AQIDBAUGBwj__v38-_r5-A", #"{"keysExpire":1}"#),
        ("AQIDBAUGBwj__v38-_r5-A", #"{"externalPurchaseId":"id","keysExpire":"1"}"#),
    ])
    func `is refused where it is none of ours`(key: String, value: String) {
        let store = MemoryStore()
        let fault = #expect(throws: StoreFault.self) {
            try StagedState.apply(
                [
                    (Self.record.changelogKey, Self.record.changelogValue()),
                    (Array(key.utf8), Array(value.utf8)),
                ],
                changelogOffset: 2,
                to: store,
                stage: DedupeStage()
            )
        }
        guard case .unreadable(recordIndex: 1, _) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        #expect(store.changelogOffset == nil)
    }

    private static let record = DedupeRecord(
        identity: identity,
        period: period,
        externalPurchaseID: Array("id".utf8),
        keysExpire: Timestamp(milliseconds: 12)
    )

    @Test(arguments: [nil, period])
    func `becomes an entry that says what else it has`(period: DedupeKey?) {
        let expiry = Timestamp(milliseconds: 1_780_000_000_000)
        let entry = DedupeEntry.identity(
            key: DedupeEntry.key(ofIdentity: Self.identity),
            value: DedupeEntry.identityValue(keysExpire: expiry, period: period)
        )
        #expect(entry.identity == Self.identity)
        #expect(entry.period == period)
        #expect(entry.keysExpire == expiry)
    }
}
