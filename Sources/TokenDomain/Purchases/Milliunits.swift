/// An amount of money in thousandths of a currency's unit, as Apple counts it: 2.99 is 2990.
package struct Milliunits: Hashable, Comparable, Sendable {
    package static let zero = Milliunits(0)

    package var count: Int64

    package init(_ count: Int64) {
        self.count = count
    }

    package static func < (left: Milliunits, right: Milliunits) -> Bool {
        left.count < right.count
    }

    /// Nil beyond `Int64`: no sum of money, and nothing that may end the worker.
    package func adding(_ other: Milliunits) -> Milliunits? {
        let (sum, overflow) = count.addingReportingOverflow(other.count)
        return overflow ? nil : Milliunits(sum)
    }

    /// Nil beyond `Int64`.
    package func subtracting(_ other: Milliunits) -> Milliunits? {
        let (difference, overflow) = count.subtractingReportingOverflow(other.count)
        return overflow ? nil : Milliunits(difference)
    }
}
