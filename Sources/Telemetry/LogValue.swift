/// What a log field may hold.
///
/// Tokens, keys and customers have no place in one.
package enum LogValue: Sendable, Equatable {
    /// Cut at ``textByteCountMax`` bytes when written; long base64url runs are masked.
    case text(String)
    case integer(Int64)
    case number(Double)
    case flag(Bool)

    /// How many bytes of a text a line shows.
    package static let textByteCountMax = 512
    /// A run of base64url at least this long looks like a token, a key or a signature, and is masked.
    package static let secretRunLengthMin = 80
}

extension LogValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral, ExpressibleByStringInterpolation
{
    package init(stringLiteral text: String) { self = .text(text) }
    package init(integerLiteral number: Int64) { self = .integer(number) }
    package init(floatLiteral number: Double) { self = .number(number) }
    package init(booleanLiteral flag: Bool) { self = .flag(flag) }
}

extension LogValue {
    package static func count(_ number: some BinaryInteger) -> LogValue {
        .integer(Int64(clamping: number))
    }

    /// The text as a line may show it: cut to its limit, and whatever looks like a secret masked.
    ///
    /// A run goes on over slashes and line ends, as in base64 and PEM; one that the look at the text
    /// cuts off counts as long.
    static func shown(_ text: String) -> String {
        var shown: [UInt8] = []
        var run: [UInt8] = []
        func endRun(isCut: Bool = false) {
            if run.count >= secretRunLengthMin || isCut && !run.isEmpty {
                shown.append(contentsOf: "<masked \(run.count) bytes>".utf8)
            } else {
                shown.append(contentsOf: run)
            }
            run.removeAll(keepingCapacity: true)
        }
        let looked = text.utf8.prefix(textByteCountMax + secretRunLengthMin)
        for byte in looked {
            if isBase64URL(byte) || !run.isEmpty && continuesRun(byte) {
                run.append(byte)
            } else {
                endRun()
                shown.append(byte)
            }
        }
        endRun(isCut: looked.endIndex < text.utf8.endIndex)
        guard shown.count > textByteCountMax else {
            return String(decoding: shown, as: UTF8.self)
        }
        return String(decoding: shown.prefix(textByteCountMax), as: UTF8.self) + "…"
    }

    private static func continuesRun(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "/"), UInt8(ascii: "\n"), UInt8(ascii: "\r"): true
        default: false
        }
    }

    private static func isBase64URL(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
            UInt8(ascii: "+"), UInt8(ascii: "="):
            true
        default:
            false
        }
    }
}
