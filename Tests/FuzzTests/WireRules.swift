import TokenDomain
import TokenWire

/// Messages and states: what is read, written and read again is equal.
///
/// The first byte says which one.
enum WireRules {
    static func broken(by input: [UInt8]) -> String? {
        let text = Array(input.dropFirst())
        return switch (input.first ?? 0) % 11 {
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
        default: comesBack(text, AccountTokenDebt.init(reading:)) { $0.write(to: &$1) }
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
