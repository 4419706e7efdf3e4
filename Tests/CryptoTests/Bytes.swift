import Foundation

/// Bytes from hexadecimal digits; blanks are allowed.
func bytes(_ hexadecimal: String) -> [UInt8] {
    let digits = hexadecimal.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
}

/// Bytes from unpadded base64url.
func bytes(base64URL text: String) -> [UInt8] {
    let standard = text.replacing("-", with: "+").replacing("_", with: "/")
    let padding = String(repeating: "=", count: (4 - standard.count % 4) % 4)
    return Data(base64Encoded: standard + padding).map { Array($0) } ?? []
}
