internal import Foundation
internal import TokenDomain

/// A property list, XML or binary, trusted for nothing.
enum PropertyListReader {
    /// Containers inside one another; Apple's own have three.
    static let depthMax = 64

    /// - Returns: nil where the bytes are no property list with a dictionary in it.
    static func members(of bytes: [UInt8]) -> [String: PropertyValue]? {
        guard isBinary(bytes) ? hasNoSet(bytes) : depth(of: bytes) <= depthMax else {
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

    /// Whether the objects of a binary list lie where its trailer says, and none is a set: no
    /// property list may have one, and Foundation on Linux ends the process where it finds one.
    private static func hasNoSet(_ bytes: [UInt8]) -> Bool {
        let trailerCount = 32
        guard bytes.count > trailerCount else {
            return false
        }
        let end = bytes.count - trailerCount
        func number(at start: Int, _ byteCount: Int) -> UInt64 {
            bytes[start..<start + byteCount].reduce(0) { $0 << 8 | UInt64($1) }
        }
        let offsetByteCount = Int(bytes[end + 6])
        let objectCount = number(at: end + 8, 8)
        let table = number(at: end + 24, 8)
        guard (1...8).contains(offsetByteCount), table <= UInt64(end),
            objectCount <= (UInt64(end) - table) / UInt64(offsetByteCount)
        else {
            return false
        }
        return (0..<Int(objectCount)).allSatisfy { index in
            let offset = number(at: Int(table) + index * offsetByteCount, offsetByteCount)
            return offset < table && bytes[Int(offset)] & 0xf0 != 0xc0
        }
    }

    /// How deep the elements of an XML text are nested, before a recursive reader gets them.
    private static func depth(of bytes: [UInt8]) -> Int {
        var depth = 0
        var deepest = 0
        for (index, byte) in bytes.enumerated() where byte == UInt8(ascii: "<") {
            let next = index + 1 < bytes.count ? bytes[index + 1] : 0
            switch next {
            case UInt8(ascii: "/"): depth -= 1
            case UInt8(ascii: "!"), UInt8(ascii: "?"): break
            default:
                // `<true/>` and its like are ended by themselves.
                let end = bytes[index...].prefix(256).firstIndex(of: UInt8(ascii: ">"))
                if end.map({ bytes[$0 - 1] != UInt8(ascii: "/") }) ?? true {
                    depth += 1
                    deepest = max(deepest, depth)
                }
            }
        }
        return deepest
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
