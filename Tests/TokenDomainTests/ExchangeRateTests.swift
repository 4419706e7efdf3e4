import Testing
import TokenDomain

@Suite struct `An exchange rate` {
    @Test(arguments: [
        ("1", "1"), ("1.0", "1"), ("0.0068", "0.0068"), ("6.8e-3", "0.0068"), ("120", "120"),
        ("1.2E+2", "120"), ("0.10", "0.1"), ("5.6e-05", "0.000056"),
        ("123456789012345678", "123456789012345678"), ("1000000000000000000.5e-1", nil),
        ("0.000000000000000000000000000001", "0.000000000000000000000000000001"),
    ])
    func `is written in plain digits`(text: String, plain: String?) {
        do throws(ExchangeRate.Fault) {
            #expect(try ExchangeRate(text).text == plain)
        } catch {
            #expect(plain == nil && error == .tooManyDigits)
        }
    }

    @Test(arguments: [
        ("", ExchangeRate.Fault.notANumber), ("x", .notANumber), ("1.", .notANumber),
        ("1e", .notANumber), ("1 ", .notANumber), ("0", .notPositive), ("0.0", .notPositive),
        ("-1", .notPositive), ("1234567890123456789", .tooManyDigits), ("1e400", .tooManyDigits),
        ("1e-31", .tooManyDigits), ("1e99999999999999999999", .tooManyDigits),
    ])
    func `is refused for its first fault`(text: String, fault: ExchangeRate.Fault) {
        #expect(throws: fault) { try ExchangeRate(text) }
    }

    @Test(arguments: [
        ("0.006788866259334691106585200272", "0.00678886625933469111"), ("1.20", "1.2"),
        ("1234567890123456784e-1", "123456789012345678"), ("0.99999999999999999999", "1"),
        ("1234567890123456785e-1", "123456789012345679"),
    ])
    func `is rounded half up to 18 digits where that is asked for`(
        text: String,
        plain: String
    ) throws {
        #expect(try ExchangeRate(utf8: Array(text.utf8), isRounded: true).text == plain)
    }

    @Test(arguments: ["999999999999999999.5", "1e18", "1e-31"])
    func `is refused where rounding leaves no 18 digits`(text: String) {
        #expect(throws: ExchangeRate.Fault.tooManyDigits) {
            try ExchangeRate(utf8: Array(text.utf8), isRounded: true)
        }
    }

    @Test(
        arguments: [
            (4_990, "1", 4_990), (1_000_000, "0.0068", 6_800), (1, "0.5", 1), (1, "0.4999", 0),
            (3, "0.5", 2), (0, "7", 0), (Int64.max, "1", Int64.max), (Int64.max, "1.1", nil),
            (Int64.max, "999999999999999999", nil), (9_999_999, "0.000056", 560),
        ] as [(Int64, String, Int64?)]
    )
    func `converts exactly and rounds half up`(amount: Int64, rate: String, result: Int64?) throws {
        #expect(try ExchangeRate(rate).convert(Milliunits(amount))?.count == result)
    }
}
