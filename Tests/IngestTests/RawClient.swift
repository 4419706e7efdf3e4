import Foundation
import Glibc
import Testing

/// A connection to a server of this machine that sends a request in any pieces.
final class RawClient {
    let descriptor: Int32
    private(set) var received = ""

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let result = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0, fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
    }

    deinit {
        close(descriptor)
    }

    /// Sends a piece that a socket takes at once.
    func send(_ piece: Substring) {
        let bytes = Array(piece.utf8)
        let count = unsafe Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        #expect(count == bytes.count)
    }

    /// Takes what has come; false once the server has let it go.
    func receive() -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        var count: Int
        repeat {
            count = unsafe recv(descriptor, &buffer, buffer.count, 0)
            received += String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
        } while count > 0
        return count < 0 && errno == EAGAIN
    }
}
