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
        let file = try RatesFile(
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

    @Test func `must be right at the start`() throws {
        try write("2026-01-10,ISK,EUR,x\n")
        let log = Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in })
        let fault = #expect(throws: ConfigurationFault.self) {
            try RatesFile(path: path, log: log)
        }
        #expect(fault?.sentence.contains("line 1") == true)
    }
}
