import Foundation
import Testing

@testable import tollway

@Suite(.enabled(if: ScriptPage.isThere, ScriptPage.skipped), .timeLimit(.minutes(1)))
struct `The console's script` {
    // MARK: - Views

    @Test(arguments: [
        ("/pipeline", "decode.x"), ("/apple", "too slow: needs 3/s"),
        ("/dead-letters", "Message and kind"), ("/dead-letters?stage=decode", "decode/0/1"),
        ("/dead-letters/decode/0/1", "Headers"), ("/token/a", "What happened"),
        ("/purchase/a", "What happened"), ("/account", "The month by app"),
        ("/audit", "count 2"),
    ])
    func `draws each view where there is something of everything`(
        path: String,
        text: String
    ) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.fill();
            await page.event({ isActing: true });
            await page.click('data-act', 'doctor');
            await page.go('\(path)');
            const before = page.main.textContent + page.labels();
            const form = page.main.find('data-submit', 'plan');
            if (form) await page.submit('plan', { action: 'replay', canary: '1' });
            if (page.main.find('data-act', 'lane')) await page.click('data-act', 'lane');
            return { before, after: page.main.textContent, faults: page.faults };
            """
        )
        let before = try #require(seen["before"] as? String)
        let after = try #require(seen["after"] as? String)
        #expect(seen["faults"] as? [String] == [], "\(before)")
        #expect(before.contains(text), "\(before)")
        #expect(!(before + after).contains("cannot be drawn"), "\(before)")
        #expect(!(before + after).contains("undefined"), "\(before) \(after)")
        if path == "/apple" {
            #expect(before.contains("Reports1 production1,234"), "\(before)")
            #expect(after.contains("How it stands") || after.contains("First deadline"), "\(after)")
        }
        if path.hasPrefix("/dead-letters/") || path.contains("?") {
            #expect(after.contains("What a replay would do"), "\(after)")
        }
    }

    // MARK: - Acts

    @Test func `reads the acts once a second, however many events come`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.acts = [{ act: 1, action: 'replay', go: 2, what: 'dead letters', by: 'mia',
              why: 'w', startedAt: 0, talk: '' }];
            for (let number = 0; number < 30; number += 1) {
              await page.event({ isActing: true });
              await page.turn(2000);
            }
            const before = page.count('/api/acts');
            await page.turn(10000);
            const asked = page.count('/api/acts') - before;
            page.acts[0].exit = 0;
            await page.turn(1000);
            const last = page.count('/api/acts');
            await page.turn(1500);
            return { asked, more: page.count('/api/acts') - last };
            """
        )
        #expect(seen["asked"] as? Int == 10)
        #expect(seen["more"] as? Int == 0)
    }

    @Test func `plans for the lane whose button was clicked, whatever is drawn meanwhile`() throws {
        let seen = try ScriptPage.run(
            "/apple",
            """
            const lane = (appAppleId, state) => ({ appAppleId, state, environment: 'production',
              endpoint: 'e', inFlight: 0, days: [] });
            page.snap.lanes = [lane(1, 'open')];
            await page.event();
            page.answer = () => ({ exit: 0, data: { lanes: [] }, plan: 'p', go: 1, what: 'w' });
            // The click draws what came since the page was drawn: another lane in the same place.
            app.snap.lanes.unshift(lane(2, 'paused'));
            await page.click('data-act', 'lane');
            return page.calls.find(call => call.path === '/api/plans').body;
            """
        )
        #expect(seen["app"] as? String == "1")
        #expect(seen["action"] as? String == "pause")
    }

    // MARK: - What is read

    @Test func `asks for an account once, however often its button is clicked`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ accounts: [], closes: true });
            await page.go('/account');
            const before = page.asked().length;
            page.hold();
            for (let number = 0; number < 3; number += 1) await page.click('data-act', 'again');
            const clicked = page.asked().length - before;
            await page.release();
            await page.click('data-act', 'again');
            return { clicked, then: page.asked().length - before };
            """
        )
        #expect(seen["clicked"] as? Int == 1)
        #expect(seen["then"] as? Int == 2)
    }

    @Test func `asks for a token again when somebody traces it again`() throws {
        let seen = try ScriptPage.run(
            "/token",
            """
            const found = { externalPurchaseId: 'a', now: ['due'], deadLetters: [], events: [],
              notes: [], traceIds: [] };
            page.answer = () => ({ error: { message: 'Kafka knows nothing of a' } });
            await page.event();
            await page.submit('search', { id: 'a' });
            const first = page.main.textContent;
            page.answer = () => found;
            await page.click('data-act', 'again');
            const again = page.main.textContent;
            await page.submit('search', { id: 'a' });
            const asked = page.asked().length;
            await page.event();
            await page.submit('search', { id: 'https://a.example/' });
            return { first, again, asked, text: page.asked().length - asked };
            """
        )
        let first = try #require(seen["first"] as? String)
        #expect(first.contains("Kafka knows nothing of a") && first.contains("asked now"))
        #expect((seen["again"] as? String)?.contains("as of now") == true)
        #expect(seen["asked"] as? Int == 3)
        // The answer to a token's text is the answer to its id.
        #expect(seen["text"] as? Int == 1)
    }

    @Test(arguments: [
        "/token/a", "/purchase/a", "/audit", "/dead-letters?stage=decode",
        "/dead-letters/decode/0/1",
    ])
    func `keeps no error, and reads on request`(path: String) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ status: 503, detail: 'too many' });
            await page.event();
            await page.go('\(path)');
            const text = page.main.textContent;
            await page.turn(2000);
            await page.event();
            const failed = page.asked().length;
            await page.click('data-act', 'again');
            const again = page.asked().length;
            await page.go('/pipeline');
            await page.go('\(path)');
            return { failed, again, back: page.asked().length, text };
            """
        )
        let text = try #require(seen["text"] as? String)
        #expect(text.contains("too many") && text.contains("Read again"), "\(text)")
        #expect(text.contains("asked now"), "\(text)")
        #expect(seen["failed"] as? Int == 1)
        #expect(seen["again"] as? Int == 2)
        #expect(seen["back"] as? Int == 3)
    }

    @Test func `reads an account anew on request alone, and other views with each visit`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ accounts: [], closes: true, deadLetters: [] });
            for (const path of ['/account', '/audit', '/account', '/audit']) await page.go(path);
            return { asked: page.asked().map(question => question.ask) };
            """
        )
        #expect(seen["asked"] as? [String] == ["account", "audit", "audit"])
    }

    @Test func `asks for an account that failed on request alone`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ error: { message: 'no memory' } });
            await page.go('/account');
            await page.go('/pipeline');
            await page.go('/account');
            const asked = page.asked().length, text = page.main.textContent;
            await page.click('data-act', 'again');
            return { asked, text, again: page.asked().length };
            """
        )
        #expect(seen["asked"] as? Int == 1)
        let text = try #require(seen["text"] as? String)
        #expect(text.contains("no memory") && text.contains("Read again"), "\(text)")
        #expect(seen["again"] as? Int == 2)
    }

    @Test(arguments: [(50_000, 2), (50_001, 1)])
    func `reads the kinds of many dead letters on request alone`(total: Int, count: Int) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.snap.deadLetterTotal = \(total);
            page.answer = () => ({ groups: [] });
            await page.event();
            await page.go('/dead-letters');
            if (!page.asked().length) await page.click('data-act', 'groups');
            await page.go('/pipeline');
            await page.go('/dead-letters');
            return { asked: page.asked().length, text: page.main.textContent };
            """
        )
        #expect(seen["asked"] as? Int == count)
        let text = seen["text"] as? String
        #expect(text?.contains("Groups as of now. Read again") == true)
        #expect(text?.contains("true") == false, "no value of JavaScript's own")
    }

    @Test func `forgets why a token was not found with the next visit`() throws {
        let seen = try ScriptPage.run(
            "/token",
            """
            page.answer = () => ({ error: { message: 'no such token' } });
            await page.event();
            await page.submit('search', { id: 'https://a.example/' });
            const first = page.main.textContent;
            await page.go('/pipeline');
            await page.go('/token');
            return { first, then: page.main.textContent };
            """
        )
        #expect((seen["first"] as? String)?.contains("no such token") == true)
        #expect((seen["then"] as? String)?.contains("no such token") == false)
    }

    @Test func `shows since when an answer to another page's question is true`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ accounts: [], closes: true });
            page.age = 300000;
            await page.go('/account');
            return { text: page.main.textContent };
            """
        )
        let text = try #require(seen["text"] as? String)
        #expect(text.contains("as of 5 min ago"), "\(text)")
    }

    @Test(arguments: [
        ("tokens", 3, "3 came into decode and did not come out"),
        ("tokens", -2, "2 came out of decode that never came in"),
        ("sales", 3, "3 read and found in no ledger, state or dead letter"),
        ("sales", -2, "2 in the ledger never came in"),
    ])
    func `says which side of an account has more, as the command does`(
        of: String,
        count: Int,
        sentence: String
    ) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ closes: false, accounts: [{ of: '\(of)', appAppleId: 1,
              accepted: 9, received: 9, repeats: 0, reported: 9, notOwed: 0, deadLetters: 0,
              held: 0, onTheWay: 0, closes: false, from: 1, to: 2,
              differences: [{ stage: 'decode', count: \(count) }] }] });
            await page.go('/account');
            return { text: page.main.textContent };
            """
        )
        let text = try #require(seen["text"] as? String)
        #expect(text.contains(sentence), "\(text)")
    }

    // MARK: - What is not known

    @Test(arguments: [
        ("", "tokens", "good", "Every account closes."),
        ("what: 'sales', from: 1, to: 2", "tokens", "good", "Every account closes."),
        ("what: 'sales', from: 2, to: 2", "tokens", "warning", "Nothing that could be counted"),
        ("what: 'month', from: 1, to: 2", "month", "warning", "Nothing that could be counted"),
        ("what: 'month', from: 1, to: 2", "", "warning", "No token and no sale was counted."),
        ("", "", "warning", "No token and no sale was counted."),
    ])
    func `calls no account good of which nothing could be counted`(
        window: String,
        line: String,
        kind: String,
        sentence: String
    ) throws {
        let windows =
            (window.isEmpty ? [] : ["{ of: 'window', \(window), cannotKnow: 'gone' }"])
            + (line.isEmpty ? [] : ["{ of: '\(line)', closes: true, accepted: 0 }"])
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ closes: true, accounts: [\(windows.joined(separator: ","))] });
            await page.go('/account');
            const kinds = ['good', 'warning', 'error'];
            return { text: page.main.textContent,
              kinds: kinds.filter(kind => page.main.find('class', kind)) };
            """
        )
        let text = try #require(seen["text"] as? String)
        #expect(text.contains(sentence), "\(text)")
        #expect(text.contains(": gone") == !window.isEmpty, "\(text)")
        #expect(seen["kinds"] as? [String] == [kind])
    }

    @Test(arguments: [
        "page.snap.troubles = ['Kafka: a request took too long']", "",
        "page.snap.clusterId = null; page.snap.troubles = ['Kafka: no broker answers']",
    ])
    func `says of nothing that it is well where Kafka could not be read`(what: String) throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            page.answer = () => ({ error: { message: 'no answer' } });
            page.snap.deadLetterTotal = page.snap.reported = null;
            page.snap.areDeadLettersAll = false;
            \(what);
            await page.event();
            const letters = page.main.textContent, banner = page.banner.textContent;
            await page.go('/apple');
            return { letters, banner, apple: page.main.textContent };
            """
        )
        let letters = try #require(seen["letters"] as? String)
        #expect(!letters.contains("No dead letter is open"), "\(letters)")
        #expect(letters.contains("How many are open is not known"), "\(letters)")
        let apple = try #require(seen["apple"] as? String)
        #expect(!apple.contains("Nothing."), "\(apple)")
        #expect(apple.contains("Not known: Kafka could not be read."), "\(apple)")
        let hasTrouble = what.contains("troubles")
        #expect(!hasTrouble || !apple.contains("Nothing is wrong"), "\(apple)")
        #expect(!hasTrouble || (seen["banner"] as? String)?.contains("Kafka") == true)
    }

    @Test func `says what was read where another part of Kafka could not be read`() throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            page.answer = () => ({ groups: [] });
            page.snap.troubles = ['Kafka: t/3 has no leader'];
            await page.event();
            const letters = page.main.textContent, banner = page.banner.textContent;
            await page.go('/apple');
            return { letters, banner, apple: page.main.textContent };
            """
        )
        let letters = try #require(seen["letters"] as? String)
        #expect(letters.contains("No dead letter is open."), "\(letters)")
        #expect(!letters.contains("not known"), "\(letters)")
        let apple = try #require(seen["apple"] as? String)
        #expect(apple.contains("Told to Apple in the last hourNothing."), "\(apple)")
        #expect((seen["banner"] as? String)?.contains("t/3 has no leader") == true)
    }

    @Test(arguments: [("({ groups: [] })", true), ("({ error: { message: 'no answer' } })", false)])
    func `says that no dead letter is open where that was read`(
        answer: String,
        isSaid: Bool
    ) throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            page.answer = () => \(answer);
            await page.event();
            return { letters: page.main.textContent };
            """
        )
        let letters = try #require(seen["letters"] as? String)
        #expect(letters.contains("No dead letter is open.") == isSaid, "\(letters)")
    }

    /// What report must have told before the page says that nothing is due.
    @Test(arguments: [
        ("worker: 'report', partitions: 4", 1, ""),
        ("worker: 'decode', partitions: 4", 1, "no report answers"),
        ("worker: 'report', partitions: 4", 2, "1 of 2 instances of report answer here"),
        ("worker: 'report', partitions: 0", 1, "report has 0 of its 4 partitions"),
        ("worker: 'report', partitions: 4, restoring: 2", 1, "report still restores its state"),
        ("worker: 'report', partitions: 4", 0, "Kafka does not say how many partitions"),
    ])
    func `says what Apple is owed where all of report answers`(
        instance: String,
        members: Int,
        gap: String
    ) throws {
        let seen = try ScriptPage.run(
            "/apple",
            """
            page.snap.instances = [{ address: 'h:9404', isReady: true, \(instance) }];
            page.snap.stages = [1, 3].map(partitions => ({ worker: 'report', topic: 't', partitions,
              members: \(members) })).slice(0, \(members) * 2);
            for (const place of ['report', 'kafka', 'ingest']) page.snap.advice.push({ place,
              severity: 'error', what: place + ' is ill', todo: 'see', section: 's' });
            await page.event();
            const apple = page.main.textContent;
            await page.go('/pipeline');
            return { apple, pipeline: page.main.textContent };
            """
        )
        let apple = try #require(seen["apple"] as? String)
        let pipeline = try #require(seen["pipeline"] as? String)
        let isKnown = gap.isEmpty
        #expect(apple.contains("No report is due now.") == isKnown, "\(apple)")
        #expect(apple.contains("No lane has had anything to send") == isKnown, "\(apple)")
        #expect(apple.contains("Apple has answered nothing since") == isKnown, "\(apple)")
        #expect(apple.contains("Not known: ") == !isKnown, "\(apple)")
        #expect(isKnown || apple.contains(gap), "\(apple)")
        #expect(pipeline.contains("no lane has had anything to send") == isKnown, "\(pipeline)")
        #expect(isKnown || pipeline.contains(gap), "\(pipeline)")
        #expect(apple.contains("report is ill") && apple.contains("kafka is ill"), "\(apple)")
        #expect(!apple.contains("ingest is ill"), "\(apple)")
    }

    // MARK: - Requests

    @Test func `opens a session anew where its own has ended`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            await page.event();
            page.session.session = 's2';
            page.answer = (path, body, call) => body && call.session !== 's2'
              ? { status: 403, detail: 'ended' } : { findings: [] };
            await page.click('data-act', 'doctor');
            const calls = page.calls.slice(-3).map(call => call.path + ' ' + call.session);
            return { calls, text: page.main.textContent };
            """
        )
        #expect(
            seen["calls"] as? [String] == ["/api/read s1", "/api/session s1", "/api/read s2"]
        )
        #expect((seen["text"] as? String)?.contains("Look again as of now") == true)
    }

    @Test func `asks once where it is refused for another reason`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            await page.event();
            page.answer = (path, body) => body && { status: 403, detail: 'another page' };
            await page.click('data-act', 'doctor');
            return { asked: page.asked().length, text: page.main.textContent };
            """
        )
        #expect(seen["asked"] as? Int == 2)
        #expect((seen["text"] as? String)?.contains("another page") == true)
    }

    @Test(arguments: [(504, ": it must wait 16 minutes for an answer."), (502, ".")])
    func `says of a plan that a proxy between has answered`(status: Int, words: String) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.fill();
            await page.event();
            await page.go('/dead-letters?stage=decode');
            page.answer = path => path === '/api/plans'
              ? { status: \(status), html: '<html>Time-out</html>' } : {};
            await page.submit('plan', { action: 'replay' });
            return { plan: document.getElementById('plan').textContent, faults: page.faults };
            """
        )
        #expect(seen["plan"] as? String == "HTTP \(status) from a proxy between\(words)")
        #expect(seen["faults"] as? [String] == [])
    }

    @Test func `shows a fault of one view in its place`() throws {
        let seen = try ScriptPage.run(
            "/token/%",
            """
            page.answer = () => ({ findings: null });
            await page.event();
            const percent = page.main.textContent, asked = page.asked();
            await page.go('/pipeline');
            await page.click('data-act', 'doctor');
            await page.event();
            const fault = page.main.textContent;
            await page.turn(4000);
            await page.go('/apple');
            return { percent, asked, fault, streams: page.streams.length,
              banner: page.banner.textContent, apple: page.main.textContent,
              faults: page.faults.length };
            """
        )
        #expect((seen["percent"] as? String)?.contains("This view cannot be drawn") == true)
        #expect((seen["asked"] as? [[String: String]])?.first?["id"] == "%")
        let fault = try #require(seen["fault"] as? String)
        #expect(fault.contains("Pipeline") && fault.contains("cannot be drawn"), "\(fault)")
        #expect(seen["streams"] as? Int == 1)
        #expect(seen["banner"] as? String == "")
        #expect((seen["apple"] as? String)?.contains("Lanes") == true)
        #expect(seen["faults"] as? Int ?? 0 > 0)
    }

    @Test func `leaves no stream open beside the next one`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            await page.event();
            page.answer = path => path === '/api/acts' && { status: 500, detail: 'no acts' };
            await page.event({ isActing: true });
            const banner = page.banner.textContent;
            page.answer = () => ({});
            await page.turn(2000);
            return { ended: page.streams.map(stream => stream.isEnded === true), banner };
            """
        )
        #expect(seen["ended"] as? [Bool] == [true, false])
        #expect(seen["banner"] as? String == "no acts")
    }

    @Test(arguments: [
        // An event asks for the acts, and the stream goes on without an end.
        "await page.event({ isActing: true }); await page.turn(10000);",
        // The clock asks for them, and the stream ends.
        "await page.turn(1000); page.streams[0].close(); await page.settle();",
    ])
    func `connects again whatever request has no answer`(what: String) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.acts = [{ act: 1, action: 'replay', go: 2, what: 'dead letters', by: 'mia',
              why: 'w', startedAt: 0, talk: '' }];
            await page.event({ isActing: true });
            page.hold();
            \(what)
            page.isHolding = false;
            const banner = page.banner.textContent, before = page.streams.length;
            await page.turn(2000);
            await page.event({ isActing: true });
            return { banner, before, streams: page.streams.length, then: page.banner.textContent,
              faults: page.faults };
            """
        )
        #expect((seen["banner"] as? String)?.hasPrefix("The console ") == true)
        #expect(seen["before"] as? Int == 1)
        #expect(seen["streams"] as? Int == 2)
        #expect(seen["then"] as? String == "")
        #expect(seen["faults"] as? [String] == [])
    }

    @Test(arguments: [nil, "a-key-of-16-byteZ", "a-key-of-16-bytes\u{200b}"])
    func `says that a key is not known`(key: String?) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ status: 401, detail: 'A key is needed.' });
            await page.turn(20000);
            return { text: page.main.textContent, key: page.kept.get('key') || '',
              sent: page.calls.length };
            """,
            key: key
        )
        let text = try #require(seen["text"] as? String)
        #expect(text.contains("Your key for this console"), "\(text)")
        #expect(text.contains("That key is not known.") == (key != nil), "\(text)")
        #expect(seen["key"] as? String == "")
        let isSent = key?.hasSuffix("\u{200b}") != true
        #expect((seen["sent"] as? Int ?? 0 > 0) == isSent)
    }

    @Test func `says beside an act why it could not be stopped`() throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            page.answer = () => ({ groups: [] });
            page.acts = [{ act: 1, action: 'replay', go: 2, what: 'dead letters', by: 'mia',
              why: 'w', startedAt: 0, talk: '' }];
            await page.event({ isActing: true });
            page.answer = path => path.startsWith('/api/acts') && { status: 500, detail: 'no stop' };
            await page.click('data-act', 'stop');
            page.answer = () => ({});
            await page.event({ isActing: true });
            return { text: page.main.textContent, faults: page.faults };
            """
        )
        #expect((seen["text"] as? String)?.contains("Stop no stop") == true)
        #expect(seen["faults"] as? [String] == [])
    }

    @Test func `says of no act that was stopped that it could not be`() throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            page.answer = () => ({ groups: [] });
            page.acts = [{ act: 1, action: 'replay', go: 2, what: 'dead letters', by: 'mia',
              why: 'w', startedAt: 0, talk: '' }];
            await page.event({ isActing: true });
            page.answer = path => path === '/api/acts' && { status: 500, detail: 'no acts' };
            await page.click('data-act', 'stop');
            return { stops: page.count('/api/acts/stop'), text: page.main.textContent,
              faults: page.faults };
            """
        )
        #expect(seen["stops"] as? Int == 1)
        #expect((seen["text"] as? String)?.contains("no acts") == false)
        #expect(seen["faults"] as? [String] == [])
    }

    // MARK: - Filters

    @Test func `links a group where a filter finds it alone`() throws {
        let seen = try ScriptPage.run(
            "/dead-letters",
            """
            const group = { stage: 'decode', count: 1, firstFailedAt: 0, lastFailedAt: 0, apps: [],
              message: 'm' };
            const hrefs = () => page.main.all().map(node => node.getAttribute('href'))
              .filter(href => href && href.includes('?'));
            page.snap.deadLetterTotal = 3;
            page.snap.deadLetters = ['unknown', 'other', 'decode.x'].map(code =>
              ({ stage: 'decode', code, count: 1, newest: 0 }));
            page.answer = () => ({ groups: [] });
            await page.event();
            const counted = hrefs(), text = page.main.textContent;
            page.answer = () => ({ groups: [{ ...group, code: '(none)', fingerprint: 'ab' },
              { ...group, code: 'decode.x', fingerprint: '' }] });
            await page.click('data-act', 'groups');
            const read = hrefs();
            page.answer = () => ({ deadLetters: [{ stage: 'decode', position: 'decode/0/1',
              source: {}, headers: {} }] });
            await page.go('/dead-letters/decode/0/1');
            return { counted, read, text, one: hrefs() };
            """
        )
        let stage = "/dead-letters?stage=decode"
        #expect(seen["counted"] as? [String] == ["\(stage)&code=decode.x"])
        let text = try #require(seen["text"] as? String)
        #expect(text.contains("unknown") && text.contains("no code that a filter finds"), "\(text)")
        #expect(seen["one"] as? [String] == [])
        #expect(
            seen["read"] as? [String] == ["\(stage)&fingerprint=ab", "\(stage)&code=decode.x"]
        )
    }

    @Test(arguments: [("A", true), ("A&code=B", false), ("A&stage=report", false)])
    func `cuts a list at the newest of one group alone`(codes: String, isCut: Bool) throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.snap.deadLetterTotal = 2;
            page.snap.deadLetters = ['A', 'B'].map((code, index) =>
              ({ stage: 'decode', code, count: 1, newest: 1000000 * (index + 1) }));
            page.answer = () => ({ deadLetters: [] });
            await page.event();
            await page.go('/dead-letters?stage=decode&code=\(codes)');
            return { filter: page.asked()[0].filter,
              fields: page.main.all().filter(node => node.getAttribute('name') === 'code')
                .map(node => node.value) };
            """
        )
        let filter = try #require(seen["filter"] as? [String: Any])
        #expect((filter["until"] != nil) == isCut)
        #expect(seen["fields"] as? [String] == (codes.hasSuffix("B") ? ["A", "B"] : ["A"]))
    }

    // MARK: - The tests

    @Test func `is ended where it does not end`() throws {
        #expect(throws: ScriptPage.Silence(secondsMax: 1)) {
            try ScriptPage.run("/pipeline", "for (;;) {}", secondsMax: 1)
        }
    }
}
