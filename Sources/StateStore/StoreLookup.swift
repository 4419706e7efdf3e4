/// Questions to one store and its answers, each side by side in one run of bytes: no allocation a
/// key.
///
/// A class, for it is handed around once a record and is large.
package final class StoreLookup {
    /// The keys asked for, in order.
    package private(set) var keys: [UInt8] = []
    private(set) var keyLengths: [UInt32] = []
    private var keyStarts: [Int] = []
    /// The values known, in the order of their keys.
    package private(set) var values: [UInt8] = []
    private var valueStarts: [Int] = []
    /// Negative where the key is unknown.
    private(set) var valueLengths: [Int64] = []

    package init() {}

    package var count: Int { keyLengths.count }

    /// Forgets questions and answers and keeps the memory.
    package func removeAll() {
        keys.removeAll(keepingCapacity: true)
        keyLengths.removeAll(keepingCapacity: true)
        keyStarts.removeAll(keepingCapacity: true)
        forgetAnswers()
    }

    /// Asks for the key that `write` appends.
    ///
    /// - Returns: the number of the question.
    @discardableResult
    package func ask(_ write: (_ keys: inout [UInt8]) -> Void) -> Int {
        let start = keys.count
        write(&keys)
        keyStarts.append(start)
        keyLengths.append(UInt32(keys.count - start))
        return keyLengths.count - 1
    }

    /// Where a key lies among ``keys``.
    package func key(_ index: Int) -> Range<Int> {
        keyStarts[index]..<keyStarts[index] + Int(keyLengths[index])
    }

    /// Where the value of a key lies among ``values``; nil where the key is unknown.
    package func value(_ index: Int) -> Range<Int>? {
        let length = Int(valueLengths[index])
        return length < 0 ? nil : valueStarts[index]..<valueStarts[index] + length
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
