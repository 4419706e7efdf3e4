import Foundation
import Kafka
import RecordLogContract
import Testing

/// A single node that is killed between PrepareCommit and the markers comes back, and passes over the
/// markers: its partitions lose their leader once more before they get it back, and its coordinator
/// takes them for deleted.
@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped), .serialized)
struct `A commit whose markers Kafka passed over` {
    @Test func `is read again where an abort took it away`() async throws {
        try await onThread {
            let rig = try PassedOverRig.afterCrash()
            defer { rig.close() }
            try rig.begin(2, isRefused: true)
            try rig.goOn(after: rig.outcome())
        }
    }

    /// The offsets that are committed tell it what to look for.
    @Test func `is read again by a process that begins after the abort`() async throws {
        try await onThread {
            let rig = try PassedOverRig.afterCrash()
            defer { rig.close() }
            // Behind the record of the first and its marker.
            try rig.beginAnew { try rig.abortByHand(at: 2) }
            try expect(rig.member.positions == [rig.place: 1], "\(rig.member.positions)")
            try expect(rig.log.hasTakenBack, "the stores have what never was")
            let isTold = rig.log.takeNotes().contains { $0.facility == "TXNGONE" }
            try expect(isTold, "nobody was told")
            let again = try rig.member.read(count: 9)
            try expect(again.records.first?.offset == 1, "something else is read")
            for number in UInt8(1)...3 {
                try rig.commit(number)
            }
            try rig.expectOnce(0...3)
            // Found out once, and committed anew since.
            try rig.beginAnew()
            try expect(rig.member.positions == [rig.place: 4], "\(rig.member.positions)")
            try expect(!rig.log.hasTakenBack, "taken back again")
        }
    }

    @Test func `is read again by a process that began before the abort`() async throws {
        try await onThread {
            let rig = try PassedOverRig.afterCrash()
            defer { rig.close() }
            try rig.beginAnew()
            try expect(rig.member.positions == [rig.place: 2], "\(rig.member.positions)")
            try expect(!rig.log.hasTakenBack, "nothing was aborted yet")
            try rig.expectState(0...1)
            try rig.begin(2, isRefused: true)
            try rig.goOn(after: rig.outcome())
        }
    }

    /// No other commit ends it, and nobody sees it.
    @Test func `is read again where nothing follows it`() async throws {
        try await onThread {
            let rig = try PassedOverRig.afterCrash()
            defer { rig.close() }
            try rig.awaitTakingBack()
            try rig.beginAnew()
            try expect(rig.member.positions == [rig.place: 1], "\(rig.member.positions)")
            try expect(rig.log.hasTakenBack, "the stores have what never was")
            try rig.expectState(0...0)
            for number in UInt8(1)...3 {
                try rig.commit(number)
            }
            try rig.expectOnce(0...3)
            try rig.expectNoOther()
        }
    }

    /// Nobody tells where it is to begin, nor what it should look for.
    @Test func `is found by a process that begins while its offsets are pending`() async throws {
        try await onThread {
            let rig = try PassedOverRig()
            defer { rig.close() }
            try rig.commit(0)
            try rig.commit(1)
            try rig.expectOnce(0...1)
            try rig.crash(before: .allMarkers)
            try rig.beginAnew()
            try expect(rig.member.positions == [rig.place: 2], "\(rig.member.positions)")
            try expect(!rig.log.hasTakenBack, "nothing was aborted")
            try rig.expectState(0...1)
            for number in UInt8(2)...3 {
                try rig.commit(number)
            }
            try rig.expectOnce(0...3)
            try rig.expectNoOther()
        }
    }

    /// Read again, the others would be there twice.
    @Test func `is a person's to see to where others have been committed since`() async throws {
        try await onThread {
            let rig = try PassedOverRig.afterCrash()
            defer { rig.close() }
            try rig.commit(2, partition: 1)
            try rig.begin(3, isRefused: true)
            try rig.expectEnd(saying: "set the group back") { _ = try rig.outcome() }
        }
    }

    /// Nobody would be told the group's positions any more.
    @Test(arguments: [true, false])
    func `is ended where its offsets are pending`(isInDoubt: Bool) async throws {
        try await onThread {
            let rig = try PassedOverRig(isWitnessed: isInDoubt)
            defer { rig.close() }
            try rig.commit(0)
            try rig.commit(1)
            if isInDoubt {
                rig.witness.arm(.silence)
                try rig.begin(2)
                try until(rig.world, "the coordinator was not asked") {
                    rig.witness.lieCount == 1 ? true : nil
                }
                try rig.expectOnce(0...2)
                // Told of what has happened, it would be in no doubt.
                rig.witness.arm(.lie)
                try rig.crash(before: .allMarkers)
            } else {
                try rig.expectOnce(0...1)
                try rig.crash(before: .allMarkers) {
                    try rig.begin(2)
                    try rig.awaitAbsence()
                }
            }
            try rig.goOnHoweverItEnds()
        }
    }
}
