/// Questions to one store and its answers, each side by side in one run of bytes: no allocation a
/// key.
///
/// A class, for it is handed around once a record and is large.
package final class StoreLookup {
    /// Values, whose members are reached without an object's checks at each of them.
    private struct Questions {
        var keys: [UInt8] = []
        var lengths: [UInt32] = []
        var starts: [Int] = []

        mutating func append(_ key: Span<UInt8>, behind prefix: UInt8?) {
            let start = keys.count
            if let prefix {
                keys.append(prefix)
            }
            unsafe key.withUnsafeBufferPointer { bytes in
                unsafe keys.append(contentsOf: bytes)
            }
            starts.append(start)
            lengths.append(UInt32(keys.count - start))
        }

        mutating func removeAll() {
            keys.removeAll(keepingCapacity: true)
            lengths.removeAll(keepingCapacity: true)
            starts.removeAll(keepingCapacity: true)
        }

        func key(_ index: Int) -> Range<Int> { starts[index]..<starts[index] + Int(lengths[index]) }
    }

    private var questions = Questions()
    /// The values known.
    package private(set) var values: [UInt8] = []
    private var valueStarts: [Int] = []
    /// Negative where the key is unknown.
    private(set) var valueLengths: [Int64] = []

    package init() {}

    package var count: Int { questions.lengths.count }
    /// The keys asked for, in order.
    package var keys: [UInt8] { questions.keys }
    var keyLengths: [UInt32] { questions.lengths }

    /// Forgets questions and answers and keeps the memory.
    package func removeAll() {
        questions.removeAll()
        forgetAnswers()
    }

    /// Asks for a key, with one byte before it where there is a `prefix`.
    ///
    /// - Returns: the number of the question.
    @discardableResult
    package func ask(_ key: Span<UInt8>, behind prefix: UInt8? = nil) -> Int {
        questions.append(key, behind: prefix)
        return count - 1
    }

    /// Where a key lies among ``keys``.
    package func key(_ index: Int) -> Range<Int> { questions.key(index) }

    /// Where the value of a key lies among ``values``; nil where the key is unknown.
    package func value(_ index: Int) -> Range<Int>? {
        let length = Int(valueLengths[index])
        return length < 0 ? nil : valueStarts[index]..<valueStarts[index] + length
    }

    /// Answers anew what a table of later changes has an answer to.
    package func apply(_ changes: ChangeTable) {
        guard !changes.isEmpty else {
            return
        }
        let (questions, bytes) = (questions, changes.bytes)
        for index in 0..<count {
            switch changes.find(questions.keys.span.extracting(questions.key(index))) {
            case nil: break
            case .removed: valueLengths[index] = -1
            case .value(let range):
                valueStarts[index] = values.count
                valueLengths[index] = Int64(range.count)
                values.append(contentsOf: bytes[range])
            }
        }
    }

    // MARK: For stores

    func forgetAnswers() {
        values.removeAll(keepingCapacity: true)
        valueStarts.removeAll(keepingCapacity: true)
        valueLengths.removeAll(keepingCapacity: true)
    }

    /// Takes the answer to the next question; nil where the key is unknown.
    func answer(_ value: [UInt8]?) {
        valueStarts.append(values.count)
        valueLengths.append(value.map { Int64($0.count) } ?? -1)
        if let value {
            values.append(contentsOf: value)
        }
    }

    /// Has all questions answered: `ask` is lent keys and their lengths, fills in the lengths of the
    /// values, negative where there is none, and returns the values side by side; nil where it fails.
    ///
    /// - Returns: whether it did not fail.
    func answerAll(
        _ ask: (_ lengths: inout [Int64]) -> UnsafePointer<UInt8>?
    ) -> Bool {
        forgetAnswers()
        valueLengths.append(contentsOf: repeatElement(-1, count: count))
        guard let bytes = unsafe ask(&valueLengths) else {
            return false
        }
        var end = 0
        for length in valueLengths {
            valueStarts.append(end)
            end += Int(max(length, 0))
        }
        unsafe values.append(contentsOf: UnsafeBufferPointer(start: bytes, count: end))
        return true
    }
}
