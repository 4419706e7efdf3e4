import StateStore
import Testing
import TokenDomain

@testable import StageRuntime
@testable import dedupe

@Suite struct `A record of the dedupe changelog` {
    private static let identity = DedupeKey(high: 0x0102_0304_0506_0708, low: 0xfffe_fdfc_fbfa_f9f8)
    private static let period = DedupeKey(high: 0, low: .max)

    private static let head = PeriodHead(
        count: 70_000,
        primary: PeriodHead.Primary(index: 69_999, id: Array("é\"".utf8))
    )

    private static let token = #"{"externalPurchaseId":"id","receivedAt":1"#

    /// Records of every kind: without a period, the first of one, later ones, and refused ones.
    private static let records: [DedupeRecord] = [
        record(nil), record(0),
        record(0, PeriodHead(count: 1, primary: nil)), record(0, head),
        record(.max, head, token: token), record(.max, head, token: token, .refused),
        record(.max, head, token: token, .known),
        record(7, PeriodHead(count: 8, primary: nil)), record(nil, isUnheard: true),
    ]

    private static func record(
        _ index: UInt32?,
        _ head: PeriodHead? = nil,
        token: String? = nil,
        _ tokenStanding: DedupeRecord.TokenStanding = .taken,
        isUnheard: Bool = false
    ) -> DedupeRecord {
        DedupeRecord(
            identity: identity,
            place: index.map { PeriodPlace(period: period, index: $0) },
            externalPurchaseID: Array("SANDBOX_\"1\"é".utf8),
            keysExpire: Timestamp(milliseconds: .max),
            head: head,
            token: token.map { Array($0.utf8) },
            tokenStanding: tokenStanding,
            isUnheard: isUnheard
        )
    }

    @Test(arguments: records.indices)
    func `is read back as it was written`(index: Int) throws {
        let record = Self.records[index]
        let keys = try #require(DedupeRecord.keys(inChangelogKey: record.changelogKey))
        #expect(keys.identity == Self.identity)
        #expect(keys.place == record.place)
        let read = try DedupeRecord(
            identity: keys.identity,
            place: keys.place,
            changelogValue: record.changelogValue()
        )
        #expect(read == record)
    }

    @Test(arguments: records.indices)
    func `becomes entries that say what it says`(index: Int) throws {
        let record = Self.records[index]
        var changes = StoreChanges()
        record.write(to: &changes)
        var entries: [[UInt8]: [UInt8]?] = [:]
        changes.forEach { _, key, value in entries[Array(key)] = .some(value.map { Array($0) }) }
        let own = try #require(entries[DedupeEntry.key(ofIdentity: Self.identity)] ?? nil)
        let identity = DedupeEntry.identity(own.span)
        #expect(identity.keysExpire == record.keysExpire)
        switch (record.place, record.isUnheard) {
        case (nil, true): #expect(identity.standing == .refusedUnheard)
        case (nil, false): #expect(identity.standing == .heard)
        case (let place?, _): #expect(identity.standing == .member(place))
        }
        guard let place = record.place else {
            #expect(entries.count == 1)
            return
        }
        let head = try #require(entries[DedupeEntry.key(ofPeriod: place.period)] ?? nil)
        let first = PeriodHead.Primary(index: 0, id: record.externalPurchaseID)
        let read = PeriodHead(entry: head.span)
        #expect(read == record.head ?? PeriodHead(count: 1, primary: first))
        let isRefused = record.tokenStanding == .refused
        let member = entries[DedupeEntry.key(ofMember: place, isRefused: isRefused)]
        let other = entries[DedupeEntry.key(ofMember: place, isRefused: !isRefused)]
        #expect((member != nil) == (place.index > 0) && (other != nil) == (place.index > 0))
        #expect((other ?? nil) == nil)
        if let member = member ?? nil {
            let found = DedupeEntry.member(member.span)
            #expect(found.id == record.externalPurchaseID && found.token == record.token)
        } else {
            #expect(record.token == nil)
        }
        #expect(
            Set(DedupeRecord.entryKeys(identity: Self.identity, place: place))
                .isSubset(of: entries.keys)
        )
    }

    /// An entry that an older version left in the local store.
    @Test func `of an older version is a period with its first token`() {
        let head = PeriodHead(entry: Array("SANDBOX_1".utf8).span)
        #expect(head.count == 1 && head.primaryID == TokenID("SANDBOX_1"))
        #expect(head.entry == Array("SANDBOX_1".utf8))
    }

    @Test func `shows its keys as text and its value as JSON`() {
        let record = DedupeRecord(
            identity: Self.identity,
            place: PeriodPlace(period: Self.period, index: 0),
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
        "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w.",
        "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w.0",
        "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w.01",
        "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w.4294967296",
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
        (
            "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w.1",
            #"{"externalPurchaseId":"id","keysExpire":1}"#
        ),
        (
            "AQIDBAUGBwj__v38-_r5-A.AAAAAAAAAAD__________w",
            #"{"externalPurchaseId":"id","keysExpire":1,"head":[1,2]}"#
        ),
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
        place: PeriodPlace(period: period, index: 0),
        externalPurchaseID: Array("id".utf8),
        keysExpire: Timestamp(milliseconds: 12)
    )
}
