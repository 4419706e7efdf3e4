import Foundation
import StageRuntime
import Telemetry
import Testing
import TokenDomain

@testable import purchases

@Suite struct `The file of exchange rates` {
    private let path = FileManager.default.temporaryDirectory
        .appendingPathComponent("rates-\(UUID().uuidString).csv").path

    private func write(_ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }

    private func rate(_ file: RatesFile) throws -> String? {
        let day = try #require(CalendarDay(iso: "2026-01-10"))
        let from = try #require(AlphaCode("ISK"))
        let to = try #require(AlphaCode("EUR"))
        return file.rates.rate(from: from, to: to, at: day.start)?.text
    }

    @Test func `is read again when it changes, and stays in force where that fails`() throws {
        try write("2026-01-10,ISK,EUR,0.0068\n")
        let file = RatesFile(
            path: path,
            log: Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        )
        #expect(try rate(file) == "0.0068")
        #expect(!file.refresh())
        try write("2026-01-10,ISK,EUR,0.00695\n")
        #expect(file.refresh())
        #expect(try rate(file) == "0.00695")
        try write("2026-01-10,ISK\n")
        #expect(!file.refresh())
        #expect(try rate(file) == "0.00695")
        try FileManager.default.removeItem(atPath: path)
        #expect(!file.refresh())
        #expect(try rate(file) == "0.00695")
    }

    /// Sales that need no rate go on.
    @Test func `says what is wrong with it at the start, and is read when it is right`() throws {
        try write("2026-01-10,ISK,EUR,x\n")
        let health = Health()
        health.setStarted()
        health.setReady()
        let log = Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        let file = RatesFile(path: path, log: log, health: health)
        #expect(try rate(file) == nil)
        #expect(health.ready.lines.contains { $0.hasPrefix("rates: ") && $0.contains("line 1") })
        try write("2026-01-10,ISK,EUR,0.00695\n")
        #expect(file.refresh())
        #expect(try rate(file) == "0.00695")
        #expect(!health.ready.lines.contains { $0.hasPrefix("rates: ") })
    }
}
