import TokenDomain
import TokenWire

/// Messages and states: what is read, written and read again is equal.
///
/// The first byte says which one.
enum WireRules {
    static func broken(by input: [UInt8]) -> String? {
        let text = Array(input.dropFirst())
        return switch (input.first ?? 0) % 12 {
        case 0: comesBack(text, TokenReceived.init(reading:)) { $0.write(to: &$1) }
        case 1: comesBack(text, TokenDecoded.init(reading:)) { $0.write(to: &$1) }
        case 2: comesBack(text, TokenDistinct.init(reading:)) { $0.write(to: &$1) }
        case 3: comesBack(text, NotificationReceived.init(reading:)) { $0.write(to: &$1) }
        case 4: comesBack(text, NotificationVerified.init(reading:)) { $0.write(to: &$1) }
        case 5: comesBack(text, ReportRequested.init(reading:)) { $0.write(to: &$1) }
        case 6: comesBack(text, ReportOutcome.init(reading:)) { $0.write(to: &$1) }
        case 7: comesBack(text, AccountTokenRequested.init(reading:)) { $0.write(to: &$1) }
        case 8: comesBack(text, AccountTokenOutcome.init(reading:)) { $0.write(to: &$1) }
        case 9: comesBack(text, TokenAccount.init(reading:)) { $0.write(to: &$1) }
        case 10: comesBack(text, AccountTokenDebt.init(reading:)) { $0.write(to: &$1) }
        default: saleComesBack(text)
        }
    }

    /// A purchase event, which has faults of its own; its rules are asked with it.
    private static func saleComesBack(_ text: [UInt8]) -> String? {
        let now = Timestamp(milliseconds: 1_768_003_200_000)
        let event: PurchaseEvent
        do throws(PurchaseFaults) {
            event = try PurchaseEvent.read(text.span, from: .door, now: now)
        } catch {
            return error.list.allSatisfy { $0.repair.hasSuffix(".") }
                ? nil : "a fault of a purchase event has no repair"
        }
        var written: [UInt8] = []
        event.write(to: &written)
        do throws(PurchaseFaults) {
            let again = try PurchaseEvent.read(written.span, from: .door, now: now)
            return again == event ? nil : "a purchase event comes back as another"
        } catch {
            return "a purchase event cannot be read as it was written: \(error.list[0].code)"
        }
    }

    private static func comesBack<Message: Equatable>(
        _ text: [UInt8],
        _ read: (Span<UInt8>) throws(WireFault) -> Message,
        _ write: (Message, inout [UInt8]) -> Void
    ) -> String? {
        let message: Message
        do throws(WireFault) {
            message = try read(text.span)
        } catch {
            return nil
        }
        guard isJSON(text) else {
            return "what is no JSON is read as \(Message.self)"
        }
        var written: [UInt8] = []
        write(message, &written)
        do throws(WireFault) {
            return try read(written.span) == message ? nil : "\(Message.self) comes back as another"
        } catch {
            return "\(Message.self) cannot be read as it was written: \(error.message)"
        }
    }

    private static func isJSON(_ text: [UInt8]) -> Bool {
        do throws(WireFault) {
            try JSONScanner.scan(text.span) { (scanner) throws(WireFault) in try scanner.skip() }
            return true
        } catch {
            return false
        }
    }
}
