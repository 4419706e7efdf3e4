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
        // Bad, and cut off by whoever writes it anew.
        for text in ["2026-01-10,ISK\n", "", "date,from,to,rate\n"] {
            try write(text)
            #expect(!file.refresh())
            #expect(try rate(file) == "0.00695")
        }
        try FileManager.default.removeItem(atPath: path)
        #expect(!file.refresh())
        #expect(try rate(file) == "0.00695")
    }

    /// As after a chmod, which is no change of the content.
    private func writeUnnoticed(_ text: String) throws {
        let files = FileManager.default
        let date = try files.attributesOfItem(atPath: path)[.modificationDate] as? Date
        let before = try #require(FileVersion(path))
        try write(text)
        try files.setAttributes([.modificationDate: try #require(date)], ofItemAtPath: path)
        #expect(FileVersion(path) == before)
    }

    @Test func `is read again until it can be read, and when the worker is told to`() throws {
        try write("2026-01-10,ISK,EUR,x.0068\n")
        let whole = Date(timeIntervalSince1970: 1_768_000_000)
        try FileManager.default.setAttributes([.modificationDate: whole], ofItemAtPath: path)
        let file = RatesFile(
            path: path,
            log: Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        )
        #expect(!file.refresh())
        try writeUnnoticed("2026-01-10,ISK,EUR,0.0068\n")
        #expect(file.refresh())
        #expect(try rate(file) == "0.0068")
        try writeUnnoticed("2026-01-10,ISK,EUR,0.0069\n")
        #expect(!file.refresh())
        file.reload()
        #expect(file.refresh())
        #expect(try rate(file) == "0.0069")
        #expect(!file.refresh())
    }

    @Test func `is not taken as far as it is written`() throws {
        try write("2026-01-10,ISK,EUR,0.0068\n")
        let health = Health()
        health.setStarted()
        health.setReady()
        let log = Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        let file = RatesFile(path: path, log: log, health: health)
        try write("2026-01-10,ISK,EUR,0.00")
        #expect(!file.refresh())
        try write("2026-01-10,ISK,EUR,0.00695\n2026-01-10,ISK,EUR,0.01")
        #expect(!file.refresh())
        #expect(try rate(file) == "0.0068")
        #expect(
            health.ready.lines.contains { $0.hasPrefix("rates: ") && $0.contains("no line end") }
        )
        try write("2026-01-10,ISK,EUR,0.006")
        #expect(!file.refresh())
        try write("2026-01-10,ISK,EUR,0.0069")
        #expect(!file.refresh())
        // Nobody goes on with it.
        #expect(file.refresh())
        #expect(try rate(file) == "0.0069")
        #expect(!health.ready.lines.contains { $0.hasPrefix("rates: ") })
        try write("2026-01-10,ISK,EUR,0.0071\n")
        #expect(file.refresh())
        #expect(try rate(file) == "0.0071")
    }

    /// Sales that need no rate go on.
    @Test func `says what is wrong with it at the start, and is read when it is right`() throws {
        let health = Health()
        health.setStarted()
        health.setReady()
        let log = Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        _ = RatesFile(path: path, log: log, health: health)
        #expect(health.ready.lines.contains { $0.hasPrefix("rates: ") })
        try write("2026-01-10,ISK,EUR,x\n")
        let file = RatesFile(path: path, log: log, health: health)
        #expect(try rate(file) == nil)
        #expect(health.ready.lines.contains { $0.hasPrefix("rates: ") && $0.contains("line 1") })
        try write("2026-01-10,ISK,EUR,0.00695\n")
        #expect(file.refresh())
        #expect(try rate(file) == "0.00695")
        #expect(!health.ready.lines.contains { $0.hasPrefix("rates: ") })
    }

    @Test func `is told in the log where it is read, with the number of its rates`() throws {
        let lines = LogLines()
        try write("2026-01-10,ISK,EUR,x\n")
        let file = RatesFile(path: path, log: lines.log())
        #expect(!file.refresh())
        try write("2026-01-10,ISK,EUR,0.0068\n2026-01-11,ISK,EUR,0.007\n2026-01-10,HUF,EUR,1\n")
        #expect(file.refresh())
        #expect(!file.refresh())
        let told = lines.all.filter { $0.contains(#""level":"info""#) }
        #expect(told.count == 1)
        #expect(told.first?.contains("the exchange rates were read") == true)
        #expect(told.first?.contains(#""rates":3"#) == true)
    }
}
