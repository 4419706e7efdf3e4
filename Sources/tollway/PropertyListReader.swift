internal import Foundation
internal import TokenDomain

/// A property list, XML or binary, trusted for nothing.
enum PropertyListReader {
    /// Containers inside one another; Apple's own have three.
    static let depthMax = 64

    /// - Returns: nil where the bytes are no property list with a dictionary in it, or have zeros
    ///   at the start: those of a text in UTF-16 or UTF-32 do.
    static func members(of bytes: [UInt8]) -> [String: PropertyValue]? {
        guard isSound(bytes) else {
            return nil
        }
        var format = PropertyListSerialization.PropertyListFormat.openStep
        let list: Any
        do {
            list = try unsafe PropertyListSerialization.propertyList(
                from: Data(bytes),
                options: [],
                format: &format
            )
        } catch {
            // The reader's error is of no use: its sentences are about itself.
            return nil
        }
        // Any word is a property list of the oldest form, which Apple's tools no longer write.
        guard format == .xml || format == .binary,
            case .dictionary(let members) = value(list, depthLeft: depthMax)
        else {
            return nil
        }
        return members
    }

    private static func isBinary(_ bytes: [UInt8]) -> Bool { bytes.starts(with: "bplist".utf8) }

    /// Whether it looks like an XML text in UTF-16 or UTF-32, behind a byte order mark or not.
    ///
    /// Apple's tools write neither.
    static func isWide(_ bytes: [UInt8]) -> Bool {
        let start = bytes.prefix(4)
        let marks: [[UInt8]] = [[0xff, 0xfe], [0xfe, 0xff], [0, 0, 0xfe, 0xff]]
        let isMarked = marks.contains { start.starts(with: $0) }
        return hasZeros(bytes) && (isMarked || start.contains(UInt8(ascii: "<")))
    }

    /// Whether there are zeros where an XML text has ASCII.
    private static func hasZeros(_ bytes: [UInt8]) -> Bool { bytes.prefix(4).contains(0) }

    private static func isSound(_ bytes: [UInt8]) -> Bool {
        guard isBinary(bytes) else {
            return !hasZeros(bytes) && depth(of: bytes).map { $0 <= depthMax } ?? false
        }
        var list = BinaryPropertyList(bytes)
        return list?.isSound(depthMax: depthMax) ?? false
    }

    /// How deep the elements of an XML text are nested, before a recursive reader gets them.
    ///
    /// - Returns: nil where an element ends that did not begin.
    private static func depth(of bytes: [UInt8]) -> Int? {
        var depth = 0
        var deepest = 0
        var rest = bytes[...]
        while let start = rest.firstIndex(of: UInt8(ascii: "<")) {
            rest = rest[(start + 1)...]
            if let (start, end) = notMarkup.first(where: { rest.starts(with: $0.start.utf8) }) {
                // What stands in it looks like elements and is none; `<!-->` begins one, and is no whole.
                rest = rest.dropFirst(start.utf8.count)
                rest = rest.suffix(from: index(behind: end, in: rest))
                continue
            }
            switch rest.first ?? 0 {
            case UInt8(ascii: "/"):
                depth -= 1
                guard depth >= 0 else {
                    return nil
                }
            case UInt8(ascii: "!"): break
            default:
                // `<true/>` and its like are ended by themselves.
                let end = rest.prefix(256).firstIndex(of: UInt8(ascii: ">"))
                if end.map({ bytes[$0 - 1] != UInt8(ascii: "/") }) ?? true {
                    depth += 1
                    deepest = max(deepest, depth)
                }
            }
        }
        return deepest
    }

    private static let notMarkup = [
        (start: "!--", end: "-->"), (start: "![CDATA[", end: "]]>"), (start: "?", end: "?>"),
    ]

    /// The index behind the first `text`; the end where there is none.
    private static func index(behind text: String, in bytes: ArraySlice<UInt8>) -> Int {
        let wanted = Array(text.utf8)
        var start = bytes.startIndex
        while let first = bytes[start...].firstIndex(of: wanted[0]) {
            if bytes[first...].starts(with: wanted) {
                return first + wanted.count
            }
            start = first + 1
        }
        return bytes.endIndex
    }

    private static func value(_ any: Any, depthLeft: Int) -> PropertyValue {
        guard depthLeft > 0 else {
            return .other
        }
        switch any {
        case let text as String:
            return .text(text)
        case let list as [Any]:
            return .list(list.map { value($0, depthLeft: depthLeft - 1) })
        case let dictionary as [String: Any]:
            return .dictionary(dictionary.mapValues { value($0, depthLeft: depthLeft - 1) })
        // A number of 1 is true to `as`, too, and none to Apple.
        case let flag as Bool where type(of: any) == Bool.self:
            return .flag(flag)
        default:
            return .other
        }
    }
}
