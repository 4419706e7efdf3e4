import Foundation
import Testing

@testable import tollway

@Suite(.enabled(if: ScriptPage.isThere, ScriptPage.skipped), .timeLimit(.minutes(1)))
struct `What the console's script says` {
    // MARK: - Answers

    @Test func `forgets what it knew where nothing matches any more`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.fill();
            await page.event();
            await page.go('/dead-letters?stage=decode');
            const before = page.main.textContent;
            page.answer = () => ({ error: { message: 'no open dead letter matches' } });
            page.exit = 6;
            await page.click('data-act', 'again');
            const failed = page.main.textContent;
            page.exit = 3;
            await page.turn(1000);
            await page.click('data-act', 'again');
            return { before, failed, gone: page.main.textContent };
            """
        )
        #expect((seen["before"] as? String)?.contains("decode/0/1") == true)
        // What could not be read is no answer: what was known stays, with its time beside it.
        #expect((seen["failed"] as? String)?.contains("decode/0/1") == true)
        let gone = try #require(seen["gone"] as? String)
        #expect(!gone.contains("decode/0/1") && !gone.contains("Do something"), "\(gone)")
        #expect(gone.contains("as of nowno open dead letter matches"), "\(gone)")
    }

    @Test func `shows what a command says beside its answer`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.fill();
            page.talk = 'the newest 50 of 99; --limit shows more\\n1 other dead letter may match\\n';
            await page.event();
            await page.go('/dead-letters?stage=decode');
            const list = page.main.find('class', 'warn').textContent, answer = page.answer;
            page.answer = (path, body) => ({ ...answer(path, body), talk: 'note: a transaction is'
              + ' open\\nwritten to /tmp/p; tollway dlq replay /tmp/p --yes does it\\n' });
            await page.submit('plan', { action: 'replay' });
            return { list, plan: document.getElementById('plan').textContent };
            """
        )
        #expect(seen["list"] as? String == "1 other dead letter may match")
        let plan = try #require(seen["plan"] as? String)
        #expect(plan.contains("note: a transaction is open") && !plan.contains("/tmp/p"), "\(plan)")
    }

    @Test func `goes back to a sale with the customer that it was asked for`() throws {
        let seen = try ScriptPage.run(
            "/purchase",
            """
            page.answer = (path, body) => path === '/api/read' ? { lineItemId: body.id, now: [],
              deadLetters: [], events: [], notes: [], waitsFor: 'idle', waitingSince: 1 } : {};
            await page.event();
            await page.submit('search', { id: 'o1', customer: 'mia' });
            await page.submit('search', { id: 'o2', customer: 'noah' });
            await page.back();
            const field = page.main.find('name', 'customer').value;
            return { field, path: location.pathname, text: page.main.textContent,
              asked: page.asked().map(question => question.id + ' ' + question.customer) };
            """
        )
        #expect(seen["asked"] as? [String] == ["o1 mia", "o2 noah", "o1 mia"])
        #expect(seen["field"] as? String == "mia")
        #expect(seen["path"] as? String == "/purchase/o1")
        // It is settled, and waits for nothing.
        #expect((seen["text"] as? String)?.contains("waits for") == false)
        #expect((seen["text"] as? String)?.contains("since") == false)
    }

    @Test func `keeps what was typed while the list above is read again`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.fill();
            await page.event();
            await page.go('/dead-letters?stage=decode');
            const canary = page.main.find('name', 'canary');
            const action = page.main.find('name', 'action');
            page.hold();
            await page.click('data-act', 'again');
            const reading = page.main.textContent.includes('Reading the newest dead letters');
            const isKept = () => page.main.find('name', 'canary') === canary
              && page.main.find('name', 'action') === action;
            const during = isKept();
            await page.release();
            return { reading, during, then: isKept() };
            """
        )
        #expect(seen["reading"] as? Bool == true)
        #expect(seen["during"] as? Bool == true)
        #expect(seen["then"] as? Bool == true)
    }

    @Test func `keeps what is typed into a search while snapshots come`() throws {
        let seen = try ScriptPage.run(
            "/purchase",
            """
            await page.event();
            const field = page.main.find('name', 'id');
            await page.event();
            return { isKept: Boolean(field) && page.main.find('name', 'id') === field };
            """
        )
        #expect(seen["isKept"] as? Bool == true)
    }

    @Test func `reads the acts where another page began or ended one`() throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            page.answer = () => ({ groups: [] });
            await page.event({ actChanges: 0 });
            const before = page.count('/api/acts');
            await page.event({ actChanges: 0 });
            const same = page.count('/api/acts') - before, groups = page.asked().length;
            page.acts = [{ act: 1, action: 'discard', go: 4, what: 'dead letters', by: 'mia', why: 'w',
              startedAt: 0, talk: '', exit: 0, data: { sent: 4 } }];
            await page.event({ actChanges: 2 });
            return { same, then: page.count('/api/acts') - before, text: page.main.textContent,
              groups: page.asked().length - groups };
            """
        )
        #expect(seen["same"] as? Int == 0)
        #expect(seen["then"] as? Int == 1)
        #expect(seen["groups"] as? Int == 1, "what it did changed the groups")
        #expect((seen["text"] as? String)?.contains("done: 4 given up") == true)
    }

    // MARK: - Texts

    @Test(arguments: [
        (#"com.\u202eelpmaxe"#, #"com.\u202eelpmaxe"#),
        (#"com.ex\u200bample"#, #"com.ex\u200bample"#),
        (#"a\tb\nc"#, "a\tb\nc"), (#"\u0000\udb40\udc41"#, #"\u0000\udb40\udc41"#),
        ("<b>ä</b> \u{5d0}", "<b>ä</b> \u{5d0}"),
    ])
    func `shows characters that nobody sees by their number`(text: String, shown: String) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.fill();
            const record = page.answers['dead-letter'].deadLetters[0];
            record.key = record.value = record.message = '\(text)';
            await page.event();
            await page.go('/dead-letters/decode/0/1');
            return { value: page.main.all().filter(node => node.nodeName === 'PRE')[0].textContent,
              text: page.main.textContent };
            """
        )
        #expect(seen["value"] as? String == shown)
        #expect((seen["text"] as? String)?.contains("message" + shown + "kind") == true)
    }

    @Test(arguments: [
        ("purchases.too_long", "A sale is refused"), ("decode.new_one", "Dead letters grow"),
    ])
    func `names the section that explains a code`(code: String, section: String) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ deadLetters: [{ position: 'purchases/0/1', code: '\(code)' }] });
            await page.event();
            await page.go('/dead-letters?stage=purchases&code=\(code)');
            return { text: page.main.textContent };
            """
        )
        let text = try #require(seen["text"] as? String)
        #expect(text.contains("RUNBOOK.md, “\(section)”"), "\(text)")
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Deploy/RUNBOOK.md")
        #expect(try String(contentsOf: file, encoding: .utf8).contains("\n## \(section)\n"))
    }

    @Test func `shows one row of a run, its newest`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            const part = (part, state) => ({ at: part, action: 'dlq.replay', by: 'mia',
              runId: 'replay-1', part, state, count: 3, runCount: 3 * part,
              source: 'dlq.' + (part > 1 ? 'report' : 'decode') });
            page.answer = () => ({ audit: [part(2, 'finished'), { at: 1, action: 'lanes.pause',
              by: 'noah', runId: 'pause-1' }, part(1, 'running')] });
            await page.event();
            await page.go('/audit');
            return { text: page.main.textContent };
            """
        )
        let text = try #require(seen["text"] as? String)
        let run = "state finished, runCount 6, source dlq.report and dlq.decode"
        #expect(text.contains(run), "\(text)")
        #expect(text.contains("lanes.pause") && !text.contains("running"), "\(text)")
        #expect(!text.contains("--limit shows more"), "\(text)")
    }

    // MARK: - Numbers

    @Test(arguments: [
        (863_999, "in 9 d 23 h"), (216_000, "in 2 d 12 h"), (9_000, "in 2 h 30 min"),
        (7_199, "in 119 min"), (119, "in 119 s"), (-9_000, "2 h 30 min ago"),
    ])
    func `says of a deadline no more time than there is`(seconds: Int, text: String) throws {
        let seen = try ScriptPage.run(
            "/apple",
            """
            page.fill();
            page.snap.lanes[0].nextDeadline = Date.now() + \(seconds) * 1000;
            await page.event();
            return { text: page.main.textContent };
            """
        )
        #expect((seen["text"] as? String)?.contains("first deadline" + text) == true)
    }

    @Test(arguments: [
        ("held", "too slow: needs 0.01/s"), ("stopped", "nothing is sent: the lane is stopped"),
        ("paused", "nothing is sent: the lane is paused"),
    ])
    func `says why a lane does not make a day`(state: String, text: String) throws {
        let seen = try ScriptPage.run(
            "/apple",
            """
            page.fill();
            const lane = page.snap.lanes[0];
            Object.assign(lane, { state: '\(state)', startedPerSecond: 0.0278 });
            lane.days[0].needsPerSecond = 0.01;
            await page.event();
            return { text: page.main.textContent };
            """
        )
        let words = try #require(seen["text"] as? String)
        #expect(words.contains(text) && words.contains("used0.028/s"), "\(words)")
        #expect(words.contains(state == "stopped" ? "next try" : "until"), "\(words)")
    }
}
