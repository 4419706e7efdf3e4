internal import Kafka
internal import TokenWire

/// Makes of dead letters what a replay sends: their values after the patch, where there is one.
final class ReplayPatcher {
    struct Patched {
        var value: ArraySlice<UInt8>
        /// Of the value as it goes: Apple's answers and the target are asked by that.
        var subject: DeadLetterSubject
    }

    private let patch: MergePatch?
    private let subjects = SubjectReader()

    init(_ patch: MergePatch?) {
        self.patch = patch
    }

    /// `subject`: of the value as it failed.
    ///
    /// - Returns: nil where the value is no JSON object that the patch could change.
    func patched(
        _ deadLetter: DeadLetterRecord,
        in batch: RecordBatch,
        subject: DeadLetterSubject
    ) -> Patched? {
        let value = batch.arena[deadLetter.record.value.indices]
        guard let patch else {
            return Patched(value: value, subject: subject)
        }
        let after: [UInt8]
        do throws(WireFault) {
            after = try patch.apply(to: Array(value))
        } catch {
            // Nil says it, and the plan counts it.
            return nil
        }
        var patched = subjects.read(after.span)
        if patched.requestIdentifier != subject.requestIdentifier {
            patched.failedIdentifier = subject.requestIdentifier
        }
        return Patched(value: after[...], subject: patched)
    }
}
