/// Texts as the C side has them.
enum CText {
    /// A list: each text ended by a zero, the list by an empty text.
    ///
    /// A zero inside a text would end it early, so it is left out; the library or the broker
    /// refuses what remains.
    static func list(_ texts: [String]) -> [CChar] {
        var bytes: [CChar] = []
        for text in texts {
            bytes += text.utf8.filter { $0 != 0 }.map { CChar(bitPattern: $0) }
            bytes.append(0)
        }
        bytes.append(0)
        return bytes
    }

    /// A text in a fixed array of a C struct.
    static func text<Characters>(of characters: Characters) -> String {
        unsafe withUnsafeBytes(of: characters) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    /// Why a broker does not let us in, where a C call knows of it and fills it in.
    static func refusal(_ fill: (UnsafeMutablePointer<CChar>?, Int) -> Int32) -> String? {
        var buffer = [CChar](repeating: 0, count: refusalByteCountMax)
        let count = buffer.count
        guard unsafe fill(&buffer, count) != 0 else {
            return nil
        }
        return text(of: buffer)
    }

    /// As much as the C side keeps.
    private static let refusalByteCountMax = 300

    /// A text in a buffer that a C call has filled.
    static func text(of buffer: [CChar]) -> String {
        String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
