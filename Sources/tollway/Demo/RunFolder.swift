internal import Foundation

/// The folder of one run of `demo` or `bench`: logs, keys and state, readable by its owner alone.
struct RunFolder {
    let url: URL

    /// Makes it among the system's temporary files, under the command's name.
    init(of command: String) throws {
        url = FileManager.default.temporaryDirectory
            .appendingPathComponent(
                "tollway-\(command)-\(UUID().uuidString.prefix(8).lowercased())"
            )
        try FileManager.default.createDirectory(
            at: url,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
    }

    /// Says where it is kept, or removes it.
    func end(isKept: Bool) {
        guard !isKept else {
            Console.say("kept: \(url.path)")
            return
        }
        do {
            try FileManager.default.removeItem(at: url)
        } catch {
            Console.say("\(url.path) could not be removed: \(error.localizedDescription)")
        }
    }
}
