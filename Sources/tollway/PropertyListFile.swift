internal import StageRuntime
internal import TokenDomain

/// A property list of a file.
enum PropertyListFile {
    static let byteCountMax = 16 << 20

    /// - Throws: exit 2 where the file cannot be read; exit 1, `links.not_a_plist`, where it is none,
    ///   or its text is UTF-16 or UTF-32.
    static func members(of path: String) throws(CommandFailure) -> [String: PropertyValue] {
        let bytes: [UInt8]
        do throws(ConfigurationFault) {
            bytes = try BoundedFile.read(path: path, setting: "FILE", byteCountMax: byteCountMax)
        } catch {
            throw .usage(
                "unreadable_file",
                String(error.sentence.replacing("FILE names ", with: ""))
            )
        }
        guard let members = PropertyListReader.members(of: bytes) else {
            throw CommandFailure(
                .failed,
                code: "links.not_a_plist",
                PropertyListReader.isWide(bytes)
                    ? "\(path) is UTF-16 or UTF-32: save it as UTF-8"
                    : "\(path) is no property list with a dictionary in it, XML or binary"
            )
        }
        return members
    }
}
