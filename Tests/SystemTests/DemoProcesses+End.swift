import Foundation
import LocalKafka

@testable import tollway

extension DemoProcesses {
    /// Ends what a rig started, and removes its Kafka's data and its folder.
    func stopAll(removing folder: URL, of kafka: LocalCluster) {
        _ = stopAll()
        kafka.wipe()
        do {
            try FileManager.default.removeItem(at: folder)
        } catch {
            print("left behind: \(folder.path)")
        }
    }
}
