import Telemetry
import Testing

@Suite struct `Metrics of a process` {
    private func text(_ metrics: Metrics) -> String {
        String(decoding: metrics.render(), as: UTF8.self)
    }

    @Test func `are rendered as Prometheus reads them`() {
        let metrics = Metrics()
        let records = metrics.counter(
            "records_total",
            help: "Records,\nand a \\.",
            labels: ["stage", "topic"]
        )
        records.add(2, "decode", "a\"b\\c\nd")
        records.series("decode", "b").add()
        metrics.gauge("lag_seconds", help: "Lag.").set(0.25)
        let waits = metrics.histogram("wait_seconds", help: "Wait.", buckets: [0.5, 1])
        waits.observe(0.5)
        waits.observe(0.75)
        waits.observe(9)
        #expect(
            text(metrics) == """
                # HELP tollway_lag_seconds Lag.
                # TYPE tollway_lag_seconds gauge
                tollway_lag_seconds 0.25
                # HELP tollway_records_total Records,\\nand a \\\\.
                # TYPE tollway_records_total counter
                tollway_records_total{stage="decode",topic="a\\"b\\\\c\\nd"} 2
                tollway_records_total{stage="decode",topic="b"} 1
                # HELP tollway_wait_seconds Wait.
                # TYPE tollway_wait_seconds histogram
                tollway_wait_seconds_bucket{le="0.5"} 1
                tollway_wait_seconds_bucket{le="1"} 2
                tollway_wait_seconds_bucket{le="+Inf"} 3
                tollway_wait_seconds_sum 10.25
                tollway_wait_seconds_count 3

                """
        )
    }

    @Test func `show a counter without labels before it counted anything`() {
        let metrics = Metrics()
        _ = metrics.counter("errors_total", help: "Errors.")
        #expect(text(metrics).hasSuffix("tollway_errors_total 0\n"))
    }

    @Test func `give the same family to whoever asks by the same name`() {
        let metrics = Metrics()
        metrics.counter("a_total", help: "A.").add()
        metrics.counter("a_total", help: "A.").add()
        #expect(text(metrics).hasSuffix("tollway_a_total 2\n"))
        #expect(metrics.descriptions.map(\.fullName) == ["tollway_a_total"])
    }

    @Test func `drop a gauge that was removed`() {
        let metrics = Metrics()
        let lag = metrics.gauge("lag", help: "Lag.", labels: ["partition"])
        lag.set(3, "0")
        lag.set(4, "1")
        lag.remove("0")
        #expect(!text(metrics).contains("partition=\"0\""))
        #expect(text(metrics).contains("partition=\"1\""))
    }

    @Test func `fold the open label alone, from the first value beyond its bound`() {
        let metrics = Metrics()
        let codes = metrics.counter(
            "codes_total",
            help: "Codes.",
            labels: ["app", "code"],
            openLabel: "code"
        )
        for number in 0..<Metrics.openValueCountMax + 2 {
            codes.add(1, "1", "\(number)")
        }
        codes.add(1, "2", "0")
        codes.add(1, "2", "\(Metrics.openValueCountMax)")
        let text = text(metrics)
        let last = Metrics.openValueCountMax - 1
        for line in [
            #"app="1",code="\#(last)"} 1"#, #"app="1",code="overflow"} 2"#,
            #"app="2",code="0"} 1"#, #"app="2",code="overflow"} 1"#,
        ] {
            #expect(text.contains("tollway_codes_total{\(line)\n"), "\(line)")
        }
        #expect(!text.contains("code=\"\(Metrics.openValueCountMax)\""))
    }

    /// A false page for ever, and a true one lost: so it was with 1,000 series and as many apps.
    @Test func `know each of a thousand apps, however many series it has`() {
        let metrics = Metrics()
        let requests = metrics.counter("r_total", help: "R.", labels: ["app", "status"])
        let stopped = metrics.gauge("stopped", help: "S.", labels: ["app", "status"])
        for number in 0..<Metrics.seriesCountMax {
            requests.add(1, "\(number / 64)", "\(number % 64)")
            stopped.set(1, "\(number / 64)", "\(number % 64)")
        }
        let full = text(metrics)
        #expect(full.contains("tollway_r_total{app=\"999\",status=\"63\"} 1\n"))
        #expect(full.contains("tollway_stopped{app=\"999\",status=\"63\"} 1\n"))
        #expect(!full.contains("overflow"))
        for status in ["0", "1"] {
            requests.add(1, "1000", status)
            stopped.set(0, "1000", status)
        }
        let beyond = text(metrics)
        #expect(beyond.contains("tollway_r_total{app=\"overflow\",status=\"overflow\"} 2\n"))
        #expect(!beyond.contains("tollway_stopped{app=\"overflow\""))
        #expect(!beyond.contains("app=\"1000\""))
    }

    @Test func `ask their collectors before each rendering`() {
        let metrics = Metrics()
        let size = metrics.gauge("size_bytes", help: "Size.")
        metrics.beforeRendering { size.set(7) }
        #expect(text(metrics).hasSuffix("tollway_size_bytes 7\n"))
    }

    @Test func `lose nothing when several threads count`() async {
        let metrics = Metrics()
        let count = metrics.counter("count_total", help: "Count.").series()
        let spread = metrics.histogram("spread", help: "Spread.", buckets: [1]).series()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<10_000 {
                        count.add()
                        spread.observe(0.5)
                    }
                }
            }
        }
        #expect(count.value == 40_000)
        #expect(text(metrics).contains("tollway_spread_sum 20000\n"))
    }
}
