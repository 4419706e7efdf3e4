internal import Glibc

/// A file that the operator names: read whole, up to a limit; pipes and `-` are files too.
enum InputFile {
    /// The bytes of a file, or of standard input for `-`.
    ///
    /// - Parameters:
    ///   - path: as it was given.
    ///   - byteCountMax: reading stops one byte beyond it: the caller says what is too long.
    /// - Returns: at most `byteCountMax` + 1 bytes.
    /// - Throws: exit 2 where it cannot be read.
    static func read(_ path: String, byteCountMax: Int) throws(CommandFailure) -> [UInt8] {
        guard path != "-" else {
            return try read(from: STDIN_FILENO, "standard input", byteCountMax)
        }
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw unreadable("\"\(path)\"", errno)
        }
        defer { close(descriptor) }
        return try read(from: descriptor, "\"\(path)\"", byteCountMax)
    }

    private static func read(
        from descriptor: Int32,
        _ name: String,
        _ byteCountMax: Int
    ) throws(CommandFailure) -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        while bytes.count <= byteCountMax {
            let count = unsafe chunk.withUnsafeMutableBytes { buffer in
                unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            }
            if count < 0, errno == EINTR {
                continue
            }
            guard count >= 0 else {
                throw unreadable(name, errno)
            }
            guard count > 0 else {
                break
            }
            bytes.append(contentsOf: chunk[..<count])
        }
        return Array(bytes.prefix(byteCountMax + 1))
    }

    private static func unreadable(_ name: String, _ error: Int32) -> CommandFailure {
        let because =
            switch error {
            case ENOENT: "there is no such file"
            case EACCES, EPERM: "it may not be read"
            case EISDIR: "it is a folder"
            default: "error \(error) of the system"
            }
        return .usage("unreadable_input", "\(name) cannot be read: \(because)")
    }
}
