package import TokenDomain

extension SeededGenerator {
    /// True once in `count` times.
    package mutating func oneIn(_ count: Int) -> Bool {
        Int.random(in: 0..<count, using: &self) == 0
    }
}
