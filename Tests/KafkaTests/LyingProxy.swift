import Foundation
import Glibc
import Synchronization

/// A proxy between clients and a broker that can falsify the answer to a commit.
final class LyingProxy: Sendable {
    /// Kafka's number of EndTxn, and its INVALID_TXN_STATE.
    private static let endTransaction: UInt16 = 26
    private static let invalidState: UInt16 = 48
    private static let frameByteCountMax = 64 << 20

    let port: UInt16
    private let listener: Int32
    private let target = Mutex<UInt16>(0)
    private let isArmed = Atomic(false)
    private let lieCounter = Atomic(0)

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.loopback(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                unsafe bind(listener, pointer, size) + listen(listener, 16)
                    + getsockname(listener, pointer, &size)
            }
        }
        guard status == 0 else {
            throw CocoaError(.fileReadUnknown)
        }
        self.listener = listener
        port = UInt16(bigEndian: address.sin_port)
    }

    /// How many answers were falsified.
    var lieCount: Int { lieCounter.load(ordering: .relaxed) }

    /// Leads every connection from now on to that port of loopback.
    func start(leadingTo port: UInt16) {
        target.withLock { $0 = port }
        Thread { [self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else {
                    return
                }
                lead(client)
            }
        }.start()
    }

    /// The next EndTxn happens, and its answer says that the transaction was in no state for it.
    func arm() { isArmed.store(true, ordering: .relaxed) }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private func lead(_ client: Int32) {
        let broker = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.loopback(port: target.withLock { $0 })
        let status = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                unsafe connect(broker, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else {
            close(client)
            close(broker)
            return
        }
        let pledges = Pledges()
        Thread { [self] in
            forward(from: client, to: broker) { frame in
                if Self.number(frame, at: 4) == Self.endTransaction {
                    pledges.add(frame[8..<12])
                }
            }
        }.start()
        Thread { [self] in
            forward(from: broker, to: client) { frame in
                guard pledges.take(frame[4..<8]), isArmed.exchange(false, ordering: .relaxed) else {
                    return
                }
                // Size, correlation, throttling, and then the error.
                frame[12] = UInt8(Self.invalidState >> 8)
                frame[13] = UInt8(Self.invalidState & 0xff)
                lieCounter.add(1, ordering: .relaxed)
            }
        }.start()
    }

    private func forward(from: Int32, to: Int32, change: (inout [UInt8]) -> Void) {
        while var frame = Self.readFrame(from) {
            change(&frame)
            guard Self.writeAll(frame, to) else {
                break
            }
        }
        shutdown(from, Int32(SHUT_RDWR))
        shutdown(to, Int32(SHUT_RDWR))
    }

    private static func loopback(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    private static func number(_ frame: [UInt8], at index: Int) -> UInt16 {
        UInt16(frame[index]) << 8 | UInt16(frame[index + 1])
    }

    /// A size in four bytes, and what follows it.
    private static func readFrame(_ descriptor: Int32) -> [UInt8]? {
        guard var frame = readBytes(4, descriptor) else {
            return nil
        }
        let count = frame.reduce(0) { $0 << 8 | Int($1) }
        guard (8...frameByteCountMax).contains(count),
            let rest = readBytes(count, descriptor)
        else {
            return nil
        }
        frame += rest
        return frame
    }

    private static func readBytes(_ count: Int, _ descriptor: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let more = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe read(descriptor, buffer.baseAddress?.advanced(by: done), count - done)
            }
            guard more > 0 else {
                return nil
            }
            done += more
        }
        return bytes
    }

    private static func writeAll(_ bytes: [UInt8], _ descriptor: Int32) -> Bool {
        var done = 0
        while done < bytes.count {
            let more = unsafe bytes.withUnsafeBytes { buffer in
                unsafe send(
                    descriptor,
                    buffer.baseAddress?.advanced(by: done),
                    bytes.count - done,
                    Int32(MSG_NOSIGNAL)
                )
            }
            guard more > 0 else {
                return false
            }
            done += more
        }
        return true
    }
}

/// Correlation ids of one connection whose answers are waited for.
private final class Pledges: Sendable {
    private let ids = Mutex<Set<[UInt8]>>([])

    func add(_ id: ArraySlice<UInt8>) { _ = ids.withLock { $0.insert(Array(id)) } }

    func take(_ id: ArraySlice<UInt8>) -> Bool { ids.withLock { $0.remove(Array(id)) } != nil }
}
