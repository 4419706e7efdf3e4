import Testing

@testable import tollway

@Suite struct `The console's feed` {
    private let feed = ConsoleFeed(
        programs: ConsolePrograms(environment: [:]),
        admin: [],
        lineByteCountMax: 100
    )

    private func take(_ text: String) -> Bool {
        feed.take(Array(text.utf8)[...], now: 1)
    }

    private var newest: String { String(decoding: feed.newest, as: UTF8.self) }

    @Test func `takes the newest whole line`() {
        #expect(!take("{\"at\":"))
        #expect(take("1}\n{\"at\":2}\n{\"at\""))
        #expect(newest == "{\"at\":2}" && feed.sequence == 1)
        #expect(take(":3}\n"))
        #expect(newest == "{\"at\":3}")
    }

    @Test(arguments: ["tail\n", "tail", "tail\n{\"at\":"])
    func `takes nothing of a line that is too long`(tail: String) {
        #expect(take("{\"at\":1}\n"))
        #expect(!take(String(repeating: "x", count: 100)))
        #expect(!take("x"))
        #expect(!take("more"))
        #expect(!take(tail))
        #expect(newest == "{\"at\":1}")
        #expect(take("2}\n{\"at\":3}\n"))
        #expect(newest == "{\"at\":3}")
    }
}
