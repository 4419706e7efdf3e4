internal import TokenDomain
internal import TokenWire

/// Values as the search reads them: what is not of the form is not what is looked for.
extension PurchaseSearch {
    private static func read<Message>(
        _ read: () throws(WireFault) -> Message
    ) -> Message? {
        do throws(WireFault) {
            return try read()
        } catch {
            return nil
        }
    }

    static func outcome(_ value: Span<UInt8>) -> PurchaseOutcome? {
        read { () throws(WireFault) in try PurchaseOutcome(reading: value) }
    }

    static func answer(_ value: Span<UInt8>) -> PurchaseAnswered? {
        read { () throws(WireFault) in try PurchaseAnswered(reading: value) }
    }

    static func request(_ value: Span<UInt8>) -> ReportRequested? {
        read { () throws(WireFault) in try ReportRequested(reading: value) }
    }

    static func report(_ value: Span<UInt8>) -> ReportOutcome? {
        read { () throws(WireFault) in try ReportOutcome(reading: value) }
    }

    static func account(_ value: Span<UInt8>) -> TokenAccount? {
        read { () throws(WireFault) in try TokenAccount(reading: value) }
    }
}
