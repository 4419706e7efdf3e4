internal import Glibc

/// The lines of an `application/x-ndjson` body, each an object of its own.
enum BodyLines {
    /// Reads every line that is not blank; all of them are good, or none counts.
    ///
    /// - Parameters:
    ///   - body: as it came.
    ///   - append: makes the record of one line, given where it lies in the body. A problem without
    ///     lines of its own is about the whole line.
    /// - Returns: how many lines there were; at least one.
    /// - Throws: 413 for more than ``IngestLimits/batchRecordCountMax`` lines, 400 with the first
    ///   ``Problem/lineCountMax`` faults where a line is wrong, or where there is none.
    static func read(
        _ body: [UInt8],
        _ append: (Range<Int>) throws(Problem) -> Void
    ) throws(Problem) -> Int {
        var bad: [Problem.Line] = []
        var badCount = 0
        var recordCount = 0
        var number = 0
        var start = 0
        while start < body.count {
            let end = lineEnd(in: body.span, from: start)
            number += 1
            defer { start = end + 1 }
            guard !isBlank(body.span.extracting(start..<end)) else {
                continue
            }
            recordCount += 1
            guard recordCount <= IngestLimits.batchRecordCountMax else {
                throw Problem(
                    status: 413,
                    code: "ingest.too_many_lines",
                    detail: "A batch has at most \(IngestLimits.batchRecordCountMax) lines."
                )
            }
            do throws(Problem) {
                try append(start..<end)
            } catch {
                badCount += 1
                bad += error.lines(at: number).prefix(Problem.lineCountMax - bad.count)
            }
        }
        guard badCount == 0 else {
            throw Problem(
                status: 400,
                code: "ingest.bad_lines",
                detail: "\(badCount) of \(recordCount) lines are wrong; nothing was stored.",
                lines: bad
            )
        }
        guard recordCount > 0 else {
            throw Problem(status: 400, code: "ingest.empty", detail: "The batch has no line.")
        }
        return recordCount
    }

    /// Where the next newline stands, or the end.
    private static func lineEnd(in body: Span<UInt8>, from start: Int) -> Int {
        unsafe body.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress,
                let found = unsafe memchr(base + start, 0x0a, bytes.count - start)
            else {
                return bytes.count
            }
            return unsafe UnsafeRawPointer(found) - base
        }
    }

    private static func isBlank(_ line: Span<UInt8>) -> Bool {
        for index in line.indices
        where line[index] != 0x20 && line[index] != 0x09 && line[index] != 0x0d {
            return false
        }
        return true
    }
}
