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

    /// Names and values, in turn in a list that a C call has handed out; values may be empty.
    static func pairs(of list: UnsafePointer<CChar>?) -> [String: String] {
        var pairs: [String: String] = [:]
        guard var position = unsafe list else {
            return pairs
        }
        while unsafe position.pointee != 0 {
            let name = unsafe String(cString: position)
            unsafe position += name.utf8.count + 1
            let value = unsafe String(cString: position)
            unsafe position += value.utf8.count + 1
            pairs[name] = value
        }
        return pairs
    }

    /// The texts of a list that a C call has handed out.
    static func texts(of list: UnsafePointer<CChar>?) -> [String] {
        var texts: [String] = []
        guard var position = unsafe list else {
            return texts
        }
        while unsafe position.pointee != 0 {
            let text = unsafe String(cString: position)
            texts.append(text)
            unsafe position += text.utf8.count + 1
        }
        return texts
    }

    /// A text in a fixed array of a C struct.
    static func text<Characters>(of characters: Characters) -> String {
        unsafe withUnsafeBytes(of: characters) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
