import TokenDomain

@testable import tollway

/// Files that the operator gives to `tollway`.
enum FileRules {
    /// A property list, checked as `links check` does.
    static func links(_ input: [UInt8]) -> String? {
        guard let members = PropertyListReader.members(of: input) else {
            return nil
        }
        guard PropertyListReader.members(of: input) == members else {
            return "a property list is read in two ways"
        }
        let list = LinkList(members: members)
        let findings = LinkRules.check(list, submitted: list, entitlements: members)
        guard findings == LinkRules.check(list, submitted: list, entitlements: members) else {
            return "the rules find other faults the second time"
        }
        return findings.contains { $0.rule == "L12" }
            ? "a list differs from itself as it was submitted" : nil
    }

    /// A plan of dead letters: its records come back as they were written.
    static func plan(_ input: [UInt8]) -> String? {
        let plan: ReplayPlanFile
        do throws(CommandFailure) {
            plan = try ReplayPlanFile(reading: input, path: "plan.json")
        } catch {
            return error.exit == .usage ? nil : "a plan is refused with \(error.exit)"
        }
        var count = 0
        for (partition, ranges) in plan.records.ranges {
            do throws(CommandFailure) {
                guard try PositionSet.ranges("records", PositionSet.text(ranges)) == ranges else {
                    return "records come back as others"
                }
            } catch {
                return "records cannot be read as they were written: \(error.message)"
            }
            for range in ranges {
                count += range.count
                let first = DeadLetterPosition(
                    stage: partition.stage,
                    partition: partition.partition,
                    offset: range.lowerBound
                )
                guard plan.records.contains(first),
                    DeadLetterPosition(first.description, prefix: plan.prefix) == first
                else {
                    return "a record of the plan is not found in it"
                }
            }
        }
        return count == plan.records.count ? nil : "records are counted wrong"
    }
}
