/// One complete request.
///
/// It waits, its connection held, until it is answered or reset.
package struct HTTPRequest: Sendable {
    package struct ID: Hashable, Sendable {
        let number: UInt64

        package init(number: UInt64) {
            self.number = number
        }
    }

    package let id: ID
    /// As it came, such as `POST`.
    package let method: String
    /// As it came, percent signs and all, without the query.
    package let path: String
    /// What follows the first `?`, as it came; empty where there is none.
    package let query: String
    /// The body, complete and within the limit; empty where there is none.
    package let body: [UInt8]
    /// The peer's numeric address, without port; empty where unknown.
    package let remoteAddress: String
    /// Name, 0, value, 0, and so on: in the order in which they came.
    let headerBytes: [UInt8]

    package init(
        id: ID,
        method: String,
        path: String,
        query: String,
        body: [UInt8],
        remoteAddress: String,
        headerBytes: [UInt8]
    ) {
        self.id = id
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.remoteAddress = remoteAddress
        self.headerBytes = headerBytes
    }

    /// The value of the first header of that name, white space trimmed; nil where there is none.
    ///
    /// The name is given in lower case.
    package func header(_ name: String) -> String? {
        var position = 0
        while let (nameRange, valueRange) = nextHeader(from: position) {
            position = valueRange.upperBound + 1
            if nameRange.count == name.utf8.count,
                zip(headerBytes[nameRange], name.utf8).allSatisfy({ lowercased($0) == $1 })
            {
                return String(decoding: trimmed(valueRange), as: UTF8.self)
            }
        }
        return nil
    }

    /// Every header in the order in which they came, names in lower case.
    package var headers: [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = []
        var position = 0
        while let (nameRange, valueRange) = nextHeader(from: position) {
            position = valueRange.upperBound + 1
            headers.append(
                (
                    name: String(decoding: headerBytes[nameRange].map(lowercased), as: UTF8.self),
                    value: String(decoding: trimmed(valueRange), as: UTF8.self)
                )
            )
        }
        return headers
    }

    private func nextHeader(from position: Int) -> (name: Range<Int>, value: Range<Int>)? {
        guard let nameEnd = headerBytes[position...].firstIndex(of: 0),
            let valueEnd = headerBytes[(nameEnd + 1)...].firstIndex(of: 0)
        else {
            return nil
        }
        return (position..<nameEnd, nameEnd + 1..<valueEnd)
    }

    /// libmicrohttpd leaves white space at the end.
    private func trimmed(_ range: Range<Int>) -> ArraySlice<UInt8> {
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        let start = headerBytes[range].drop(while: isBlank)
        guard let last = start.lastIndex(where: { !isBlank($0) }) else {
            return []
        }
        return start[...last]
    }

    private func lowercased(_ byte: UInt8) -> UInt8 {
        (0x41...0x5a).contains(byte) ? byte | 0x20 : byte
    }
}
