internal import Glibc

/// Files that hold keys: read once at start, never shown, not readable by everybody.
package enum SecretFile {
    package static let byteCountMax = 64 << 10
    /// A key shorter than this can be guessed.
    package static let keyByteCountMin = 16
    /// One live, and one on its way in or out.
    package static let bearerKeyCountMax = 2

    /// The file's bytes, one line end at the end stripped.
    ///
    /// The setting that named the file stands in every error; the content never does.
    package static func read(
        path: String,
        setting: String,
        byteCountMin: Int = keyByteCountMin
    ) throws(ConfigurationFault) -> [UInt8] {
        var bytes = try BoundedFile.read(
            path: path,
            setting: setting,
            byteCountMax: byteCountMax,
            isSecret: true
        )
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") {
                bytes.removeLast()
            }
        }
        guard bytes.count >= byteCountMin else {
            throw .unreadableFile(
                setting: setting,
                path: path,
                because: "it holds \(bytes.count) bytes, and a key has at least \(byteCountMin)"
            )
        }
        return bytes
    }

    /// The bearer keys of `ingest`: one a line, 16 visible characters or more.
    package static func readBearerKeys(
        path: String,
        setting: String = Setting.ingestKeysFile.fullName
    ) throws(ConfigurationFault) -> [[UInt8]] {
        let bytes = try read(path: path, setting: setting, byteCountMin: 0)
        let lines = bytes.split(separator: UInt8(ascii: "\n"))
            .map { $0.last == UInt8(ascii: "\r") ? Array($0.dropLast()) : Array($0) }
            .filter { !$0.isEmpty }
        guard (1...bearerKeyCountMax).contains(lines.count) else {
            throw .unreadableFile(
                setting: setting,
                path: path,
                because: "it holds \(lines.count) keys, and there may be one or two, one a line"
            )
        }
        for (index, line) in lines.enumerated() {
            guard line.count >= keyByteCountMin, line.allSatisfy({ (0x21...0x7e).contains($0) })
            else {
                throw .unreadableFile(
                    setting: setting,
                    path: path,
                    because: "key \(index + 1) must be at least \(keyByteCountMin) visible "
                        + "ASCII characters without blanks"
                )
            }
        }
        return lines
    }
}

/// A file read whole, of a size known to be small.
package enum BoundedFile {
    /// - Throws: ``ConfigurationFault/unreadableFile(setting:path:because:)`` where it is missing, no
    ///   regular file, too large, or (a secret) readable by everybody.
    package static func read(
        path: String,
        setting: String,
        byteCountMax: Int,
        isSecret: Bool = false
    ) throws(ConfigurationFault) -> [UInt8] {
        func fault(_ because: String) -> ConfigurationFault {
            .unreadableFile(setting: setting, path: path, because: because)
        }
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw fault(Self.systemError(errno))
        }
        defer { close(descriptor) }
        var information = stat()
        guard unsafe fstat(descriptor, &information) == 0 else {
            throw fault(Self.systemError(errno))
        }
        guard information.st_mode & S_IFMT == S_IFREG else {
            throw fault("it is no regular file")
        }
        guard !isSecret || information.st_mode & S_IROTH == 0 else {
            throw fault("everybody can read it; take that right away (chmod o-r)")
        }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { buffer in
                unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            }
            if count < 0, errno == EINTR {
                continue
            }
            guard count >= 0 else {
                throw fault(Self.systemError(errno))
            }
            guard count > 0 else {
                return bytes
            }
            bytes.append(contentsOf: chunk[..<count])
            guard bytes.count <= byteCountMax else {
                throw fault("it is larger than \(byteCountMax) bytes")
            }
        }
    }

    private static func systemError(_ number: Int32) -> String {
        switch number {
        case ENOENT: "there is no such file"
        case EACCES, EPERM: "it may not be read"
        case EISDIR: "it is a folder"
        default: "it cannot be read (error \(number) of the system)"
        }
    }
}
