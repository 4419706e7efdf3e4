import Foundation
import Testing

@testable import tollway

/// The page's script in a Node.js, with as much of a browser as it needs.
///
/// Its clock stands until a test turns it, and its console is a function of the test.
enum ScriptPage {
    static let program = find("node")
    /// Ends what does not end, even where it waits for nothing.
    private static let timeout = find("timeout")

    static var isThere: Bool { program != nil && timeout != nil }
    static let skipped: Comment = "skipped: there is no node, or no timeout, in the PATH"

    private static func find(_ name: String) -> String? {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        return path.split(separator: ":").map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    /// The script said nothing in its time.
    struct Silence: Error, Equatable {
        var secondsMax: Int
    }

    /// Opens a view and does what the body says, which returns what can be JSON.
    ///
    /// The body has `page`: its `answer(path, body)` gives the console's answers, `event` and `snap`
    /// make the next event, `turn` moves the clock, `click` and `submit` are a person's.
    static func run(
        _ path: String,
        _ body: String,
        key: String? = nil,
        secondsMax: Int = 40
    ) throws -> [String: Any] {
        let folder = try TemporaryFolder()
        let script = try #require(ConsoleAssets.asset("/console.js"))
        let start = try JSONSerialization.data(
            withJSONObject: [
                "path": path, "key": key ?? "", "body": body,
                "script": String(decoding: script.bytes, as: UTF8.self),
            ]
        )
        let input = try folder.file("start.json", start)
        let browser = try folder.file("browser.js", Data((browser + full).utf8))
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: try #require(timeout))
        process.arguments = [
            "--signal=KILL", "\(secondsMax)", try #require(program), browser.path, input.path,
        ]
        process.standardOutput = output
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard !data.isEmpty else {
            throw Silence(secondsMax: secondsMax)
        }
        let text = String(decoding: data, as: UTF8.self)
        let object = try JSONSerialization.jsonObject(with: data) as? [String: Any]
        let seen = try #require(object, "\(text)")
        let fault = seen["fault"] as? String
        try #require(fault == nil, "\(fault ?? "")")
        return try #require(seen["value"] as? [String: Any], "\(text)")
    }

    private static let browser = #"""
        'use strict';
        const start = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
        const attributesOf = (node, name) => ({ name, value: node.map.get(name) });
        class Node {
          static TEXT_NODE = 3;
          constructor(type, name) { this.nodeType = type; this.nodeName = name; this.childNodes = [];
            this.parentNode = null; this.map = new Map(); }
          get attributes() { return [...this.map.keys()].map(name => attributesOf(this, name)); }
          // As in a browser, a form's field of that name hides the form's own.
          get id() { return (this.nodeName === 'FORM' && this.find('name', 'id'))
            || this.map.get('id') || ''; }
          get value() { return this.typed ?? this.map.get('value') ?? ''; }
          set value(text) { this.typed = text; }
          get textContent() { return this.nodeType === 3 ? this.data
            : this.childNodes.map(child => child.textContent).join(''); }
          set textContent(text) { this.replaceChildren(String(text)); }
          get dataset() {
            return new Proxy({}, {
              get: (_, name) => this.map.get('data-' + String(name)),
              set: (_, name, value) => { this.map.set('data-' + name, String(value)); return true; },
              ownKeys: () => [...this.map.keys()].filter(name => name.startsWith('data-'))
                .map(name => name.slice(5)),
              getOwnPropertyDescriptor: (_, name) => ({ enumerable: true, configurable: true,
                value: this.map.get('data-' + name) }) });
          }
          get classList() { return { toggle: () => {} }; }
          setAttribute(name, value) { this.map.set(name, String(value)); }
          getAttribute(name) { return this.map.get(name) ?? null; }
          hasAttribute(name) { return this.map.has(name); }
          removeAttribute(name) { this.map.delete(name); }
          append(...nodes) {
            for (const one of nodes) {
              const node = one instanceof Node ? one : text(one);
              node.remove();
              node.parentNode = this;
              this.childNodes.push(node);
            }
          }
          remove() {
            const all = this.parentNode ? this.parentNode.childNodes : [];
            if (all.includes(this)) all.splice(all.indexOf(this), 1);
            this.parentNode = null;
          }
          replaceWith(fresh) {
            fresh.remove();
            const parent = this.parentNode, index = parent.childNodes.indexOf(this);
            parent.childNodes[index] = fresh;
            fresh.parentNode = parent;
            this.parentNode = null;
          }
          replaceChildren(...nodes) {
            for (const child of [...this.childNodes]) child.remove();
            this.append(...nodes);
          }
          cloneNode() {
            const node = new Node(this.nodeType, this.nodeName);
            node.map = new Map(this.map);
            return node;
          }
          all() { return this.childNodes.flatMap(child => [child, ...child.all()]); }
          find(attribute, value) { return this.all().find(node => node.map.has(attribute)
            && (value === undefined || node.map.get(attribute) === value)); }
          closest(selector) {
            const name = /^\[([a-z-]+)\]$/.exec(selector);
            for (let node = this; node; node = node.parentNode)
              if (name ? node.map.has(name[1])
                : node.nodeName === 'A' && (node.map.get('href') || '').startsWith('/')) return node;
            return null;
          }
          focus() {}
        }
        function text(data) { const node = new Node(3, '#text'); node.data = String(data);
          return node; }
        const body = new Node(1, 'BODY'), listeners = {};
        for (const [tag, id] of [['NAV', 'nav'], ['P', 'state'], ['DIV', 'banner'], ['MAIN', 'main'],
          ['FOOTER', 'foot']]) {
          const node = new Node(1, tag);
          node.setAttribute('id', id);
          body.append(node);
        }
        const listen = (name, listener) => { listeners[name] = listener; };
        const document = { title: '', addEventListener: listen, querySelector: () => null,
          createElement: tag => new Node(1, tag.toUpperCase()),
          getElementById: id => body.find('id', id) || null };
        const window = { addEventListener: listen, scrollTo() {} };
        const location = { reload() { page.reloads += 1; }, set(path) {
          [this.pathname, this.search] = [path.split('?')[0], path.includes('?')
            ? '?' + path.split('?')[1] : '']; } };
        location.set(start.path);
        const past = [];
        const history = { state: null, pushState(state, title, path) {
          past.push([this.state, location.pathname + location.search]);
          this.state = state;
          location.set(path);
        } };
        const kept = new Map(start.key ? [['key', start.key]] : []);
        const sessionStorage = { getItem: name => kept.get(name) ?? null,
          setItem: (name, value) => kept.set(name, value), removeItem: name => kept.delete(name) };

        let now = 1_800_000_000_000, timers = [], timerCount = 0;
        class PageDate extends Date {
          constructor(...values) { super(...(values.length ? values : [now])); }
          static now() { return now; }
        }
        function setTimer(call, wait, every) {
          timerCount += 1;
          timers.push({ number: timerCount, at: now + wait, call, every });
          return timerCount;
        }
        const settle = async () => {
          for (let turn = 0; turn < 20; turn += 1) await new Promise(done => setImmediate(done));
        };
        const encoder = new TextEncoder();
        const page = {
          main: body.find('id', 'main'), banner: body.find('id', 'banner'), reloads: 0, calls: [],
          faults: [], streams: [], holds: [], kept,
          session: { session: 's1', person: 'mia', version: '1', deadLetterAdvice: {},
            pipeline: [{ worker: 'report', sources: ['t'], targets: [], asksApple: true }] },
          // Of the answers.
          age: 0, exit: 0, talk: '',
          snap: { clusterId: 'c', servers: 'k:1', prefix: '', stages: [], lanes: [], answers: [],
            reported: [], isReportedAll: true, deadLetterTotal: 0, areDeadLettersAll: true, deadLetters: [],
            instances: [], troubles: [], advice: [] },
          acts: [],
          // What it gives is data of a command, or { status, detail }; of a proxy { status, html }.
          answer: () => ({}),
          settle,
          count: path => page.calls.filter(call => call.path === path).length,
          asked: () => page.calls.filter(call => call.path === '/api/read').map(call => call.body),
          // The next answers wait until `release` lets them go.
          hold() { page.isHolding = true; },
          async release() { page.isHolding = false; page.holds.splice(0).forEach(go => go());
            await settle(); },
          async event(more) {
            const data = { sequence: 1, ageMilliseconds: 0, isActing: false, snapshot: page.snap,
              ...more };
            page.streams.at(-1).enqueue(encoder.encode('data: ' + JSON.stringify(data) + '\n\n'));
            await settle();
          },
          async turn(milliseconds) {
            const until = now + milliseconds;
            for (;;) {
              const due = timers.filter(timer => timer.at <= until)
                .sort((a, b) => a.at - b.at || a.number - b.number)[0];
              if (!due) break;
              now = Math.max(now, due.at);
              if (due.every) due.at += due.every;
              else timers = timers.filter(timer => timer !== due);
              due.call();
              await settle();
            }
            now = until;
          },
          async click(attribute, value) {
            const target = page.main.find(attribute, value) || body.find(attribute, value);
            if (!target) throw new Error('no [' + attribute + '=' + value + '] in: '
              + page.main.textContent);
            listeners.click({ target, button: 0, preventDefault() {} });
            await settle();
          },
          async submit(name, values) {
            const form = page.main.find('data-submit', name);
            listeners.submit({ target: form, preventDefault() {}, values });
            await settle();
          },
          async back() { const [state, path] = past.pop(); history.state = state;
            await page.go(path); },
          async go(path) { location.set(path); listeners.popstate(); await settle(); },
          labels: () => page.main.all().map(node => node.getAttribute('aria-label')).join(' '),
          // Something of everything that a snapshot and an answer can have.
          fill() {
            Object.assign(page, full(now));
            Object.assign(page.snap, page.more);
            page.answer = (path, body) => path === '/api/plans' ? { exit: 0, plan: 'p', go: 1,
              what: 'w', data: body.filter ? page.answers.plan : page.answers.lane }
              : path === '/api/read' && page.answers[body.ask];
          } };
        class PageForm {
          constructor(form) { this.values = page.values || {}; void form; }
          get(name) { return this.values[name] ?? ''; }
          [Symbol.iterator]() { return Object.entries(this.values)[Symbol.iterator](); }
        }
        const respond = (status, value) => new Response(JSON.stringify(value), { status });
        async function pageFetch(path, options) {
          const headers = new Headers(options.headers);
          const call = { path, key: headers.get('authorization'),
            session: headers.get('x-tollway-session'),
            body: options.body ? JSON.parse(options.body) : undefined };
          page.calls.push(call);
          if (page.isHolding && path !== '/api/events')
            await new Promise((go, fail) => {
              page.holds.push(go);
              if (options.signal)
                options.signal.addEventListener('abort', () => fail(options.signal.reason));
            });
          const given = page.answer(path, call.body, call);
          if (given && given.html) return new Response(given.html, { status: given.status });
          if (given && given.status) return respond(given.status, given);
          if (path === '/api/session') return respond(200, page.session);
          if (path === '/api/acts' && !call.body) return respond(200, { acts: page.acts });
          if (path === '/api/events') {
            const source = { start: controller => {
              page.streams.push(controller);
              options.signal.addEventListener('abort', () => { controller.isEnded = true;
                try { controller.error(options.signal.reason); } catch { /* It has ended. */ } });
            } };
            return new Response(new ReadableStream(source), { status: 200 });
          }
          if (path === '/api/read') return respond(200, { exit: page.exit, data: given,
            talk: page.talk, ageMilliseconds: page.age });
          return respond(200, given);
        }
        const PageSignal = { timeout(wait) {
          const ender = new AbortController();
          setTimer(() => ender.abort(new DOMException('too long', 'TimeoutError')), wait);
          return ender.signal;
        } };
        const context = require('vm').createContext({ Node, document, window, location, history,
          sessionStorage, page, Date: PageDate, FormData: PageForm, fetch: pageFetch, Intl,
          setTimeout: (call, wait) => setTimer(call, wait), AbortController, TextDecoderStream,
          AbortSignal: PageSignal,
          setInterval: (call, wait) => setTimer(call, wait, wait), URLSearchParams, Blob, URL,
          clearTimeout: number => { timers = timers.filter(timer => timer.number !== number); },
          console: { error: error => page.faults.push(String(error)) } });
        process.on('unhandledRejection', error => page.faults.push('unhandled: ' + error));
        const { runInContext } = require('vm');
        runInContext(start.script, context);
        // What is typed is given with the submit.
        const submit = listeners.submit;
        listeners.submit = event => { page.values = event.values; submit(event); };
        (async () => {
          await settle();
          const value = await runInContext('(async () => {' + start.body + '})()', context);
          return { value };
        })().catch(error => ({ fault: String(error.stack || error) }))
          .then(seen => process.stdout.write(JSON.stringify(seen), () => process.exit(0)));

        """#
}
