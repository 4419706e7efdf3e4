internal import Foundation
internal import StageRuntime
internal import TokenDomain

/// A property list of a file, XML or binary, trusted for nothing.
enum PropertyListFile {
    static let byteCountMax = 16 << 20
    /// Containers inside one another; Apple's own have three.
    static let depthMax = 64

    /// - Throws: exit 2 where the file cannot be read; exit 1, `links.not_a_plist`, where it is none.
    static func members(of path: String) throws(CommandFailure) -> [String: PropertyValue] {
        let bytes: [UInt8]
        do throws(ConfigurationFault) {
            bytes = try BoundedFile.read(path: path, setting: "FILE", byteCountMax: byteCountMax)
        } catch {
            throw .usage(
                "unreadable_file",
                error.sentence.replacingOccurrences(of: "FILE names ", with: "")
            )
        }
        let notOne = CommandFailure(
            .failed,
            code: "links.not_a_plist",
            "\(path) is no property list with a dictionary in it, XML or binary"
        )
        guard depth(of: bytes) <= depthMax else {
            throw notOne
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
            // Why it is none helps nobody: the reader's sentences are about itself.
            throw notOne
        }
        // Any word is a property list of the oldest form, which Apple's tools no longer write.
        guard format == .xml || format == .binary,
            case .dictionary(let members) = value(list, depthLeft: depthMax)
        else {
            throw notOne
        }
        return members
    }

    /// How deep the elements of an XML text are nested, before a recursive reader meets them.
    private static func depth(of bytes: [UInt8]) -> Int {
        guard !bytes.starts(with: "bplist".utf8) else {
            return 0
        }
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
        case let flag as Bool:
            return .flag(flag)
        default:
            return .other
        }
    }
}
