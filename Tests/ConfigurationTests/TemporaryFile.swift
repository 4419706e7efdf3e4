import Foundation

/// A file that goes away with its owner; by default only its owner may read it.
final class TemporaryFile {
    let path: String

    init(_ content: String, mode: Int = 0o600) throws {
        let folder = FileManager.default.temporaryDirectory
        let url = folder.appendingPathComponent("tollway-test-\(UUID().uuidString)")
        try Data(content.utf8).write(to: url)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
        path = url.path
    }

    deinit {
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            // It lies in the temporary folder, where somebody else cleaned up first.
        }
    }
}
