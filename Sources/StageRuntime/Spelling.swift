/// Which known word an unknown one was probably meant to be.
package enum Spelling {
    /// The nearest of the known words, if near enough to be worth naming.
    ///
    /// - Returns: nil where more than a third of the letters would have to change.
    package static func nearest(to word: String, among known: some Sequence<String>) -> String? {
        let bounded = Array(word.utf8.prefix(100))
        var best: (word: String, distance: Int)?
        for candidate in known {
            let distance = Self.distance(bounded, Array(candidate.utf8))
            if distance < best?.distance ?? .max {
                best = (candidate, distance)
            }
        }
        guard let best, best.distance <= max(1, max(bounded.count, best.word.utf8.count) / 3) else {
            return nil
        }
        return best.word
    }

    /// Letters to insert, remove, replace or swap with their neighbour.
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var beforeLast: [Int] = []
        var last = Array(0...right.count)
        for row in left.indices {
            var current = [row + 1]
            for column in right.indices {
                let isSame = left[row] == right[column]
                var cost = min(
                    last[column + 1] + 1,
                    current[column] + 1,
                    last[column] + (isSame ? 0 : 1)
                )
                if row > 0, column > 0, left[row] == right[column - 1],
                    left[row - 1] == right[column]
                {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            beforeLast = last
            last = current
        }
        return last[right.count]
    }
}
