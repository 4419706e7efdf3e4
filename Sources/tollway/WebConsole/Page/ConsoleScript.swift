/// What the page does: its parts, one file for each view.
enum ConsoleScript {
    /// Elements, times, requests, and where the page is.
    ///
    /// Data becomes text and attributes, never markup. What is drawn anew is merged into what is
    /// there, so that focus, scroll and what was typed stay.
    static let core = #"""
        'use strict';
        const app = { snap: null, gotAt: 0, age: 0, session: null, views: {},
          acts: [], cache: {}, actions: {}, submits: {} };

        // What is not seen, or turns the text around it, is shown by its number.
        function printable(text) {
          return text.replace(/(?![\t\n])[\p{Cc}\p{Cf}\u2028\u2029]/gu, one => one.split('').map(
            unit => '\\u' + unit.charCodeAt(0).toString(16).padStart(4, '0')).join(''));
        }
        // What is not there keeps its place, so that the next drawing pairs the rest as before.
        function placed(child) {
          if (child === undefined || child === null || child === false) return '';
          return child.nodeType ? child : printable(String(child));
        }
        function el(tag, attributes, ...children) {
          const node = document.createElement(tag);
          for (const [name, value] of Object.entries(attributes || {})) {
            if (value === undefined || value === null || value === false) continue;
            if (name.startsWith('on')) throw new Error('handlers are delegated');
            node.setAttribute(name, value === true ? '' : String(value));
          }
          node.append(...children.flat(9).map(placed));
          return node;
        }

        const keptAttributes = { DETAILS: ['open'], BUTTON: ['disabled'] };
        // By its attribute: the id of a form that has a field of that name is the field.
        const idOf = node => node.nodeType === Node.TEXT_NODE ? null : node.getAttribute('id');
        function merge(old, fresh) {
          if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName
            || idOf(old) !== idOf(fresh)) {
            old.replaceWith(fresh);
            return;
          }
          if (old.nodeType === Node.TEXT_NODE) {
            if (old.data !== fresh.data) old.data = fresh.data;
            return;
          }
          const kept = keptAttributes[old.nodeName] || [];
          for (const attribute of [...old.attributes]) {
            if (!fresh.hasAttribute(attribute.name) && !kept.includes(attribute.name))
              old.removeAttribute(attribute.name);
          }
          for (const attribute of fresh.attributes) {
            if (old.getAttribute(attribute.name) !== attribute.value)
              old.setAttribute(attribute.name, attribute.value);
          }
          const before = [...old.childNodes], after = [...fresh.childNodes];
          after.forEach((node, index) => {
            if (index < before.length) merge(before[index], node); else old.append(node);
          });
          before.slice(after.length).forEach(node => node.remove());
        }
        function fill(parent, children) {
          const fresh = parent.cloneNode(false);
          fresh.append(...[children].flat(9).map(placed));
          merge(parent, fresh);
        }

        // Numbers and times.
        const big = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
        const number = value => value === undefined || value === null ? '–' : big.format(value);
        const small = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 });
        const rate = value => value === undefined || value === null ? '–'
          : (value < 1 ? small : big).format(value) + '/s';
        // Never more than it is: what is left to a deadline is read from it.
        function span(seconds) {
          const s = Math.abs(seconds), whole = unit => Math.floor(s / unit);
          if (s < 1) return Math.round(s * 1000) + ' ms';
          if (s < 120) return whole(1) + ' s';
          if (s < 7200) return whole(60) + ' min';
          if (s < 172800) return whole(3600) + ' h ' + whole(60) % 60 + ' min';
          return whole(86400) + ' d ' + whole(3600) % 24 + ' h';
        }
        function instant(milliseconds) {
          const date = new Date(milliseconds);
          return isNaN(date) ? '?' : date.toISOString().replace('T', ' ').replace('.000Z', 'Z');
        }
        function when(milliseconds) {
          if (milliseconds === undefined || milliseconds === null) return '–';
          const seconds = (milliseconds - Date.now()) / 1000;
          const text = Math.abs(seconds) < 1 ? 'now' : seconds < 0 ? span(seconds) + ' ago'
            : 'in ' + span(seconds);
          return el('time', { title: instant(milliseconds) }, text);
        }

        function table(columns, rows, label) {
          const head = columns.map(column => el('th', { scope: 'col', class: column.n && 'n' },
            column.title));
          const body = rows.map(row => el('tr', null, row.map((cell, index) => el('td',
            { 'data-label': columns[index].title, class: columns[index].n && 'n' },
            el('span', null, cell)))));
          return el('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': label },
            el('table', { class: 'stack' }, el('thead', null, el('tr', null, head)),
              el('tbody', null, body)));
        }
        function facts(pairs) {
          return el('dl', { class: 'facts' }, pairs.filter(pair => pair[1] !== undefined
            && pair[1] !== null && pair[1] !== '').map(([name, value, kind]) =>
            [el('dt', null, name), el('dd', { class: kind }, value)]));
        }

        // Requests. A question may take minutes; what has no body is answered at once.
        const answerMilliseconds = 10000;
        async function call(path, body, isAgain) {
          const headers = { Accept: 'application/json' };
          const key = sessionStorage.getItem('key');
          // No header can carry such a one: a zero-width space, say, that was copied with it.
          if (key && /[^\x20-\x7e\xa0-\xff]/.test(key)) {
            askKey();
            throw new Error('A key is needed.');
          }
          if (key) headers.Authorization = 'Bearer ' + key;
          if (app.session) headers['X-Tollway-Session'] = app.session.session;
          if (body) headers['Content-Type'] = 'application/json';
          let response, text;
          try {
            response = await fetch(path, { method: body ? 'POST' : 'GET', headers,
              body: body ? JSON.stringify(body) : undefined, cache: 'no-store',
              signal: body ? undefined : AbortSignal.timeout(answerMilliseconds) });
            text = await response.text();
          } catch (error) {
            throw new Error('The console does not answer: is it still running?');
          }
          if (response.status === 401) { askKey(); throw new Error('A key is needed.'); }
          if (response.status === 403 && body && !isAgain) {
            // The session of a page that was open for long may have ended.
            app.session = await call('/api/session');
            return call(path, body, true);
          }
          let answer;
          try {
            answer = JSON.parse(text);
          } catch (error) {
            throw new Error('HTTP ' + response.status + ' from a proxy between'
              + (response.status === 504 ? ': it must wait 16 minutes for an answer.' : '.'));
          }
          if (!response.ok) {
            const fault = new Error(answer.detail || 'HTTP ' + response.status);
            fault.status = response.status;
            throw fault;
          }
          return answer;
        }
        // What a command came to, and when it began: one that ran already may answer, too.
        async function ask(question) {
          const answer = await call('/api/read', question);
          return { data: outcome(answer), talk: answer.talk,
            at: Date.now() - (answer.ageMilliseconds || 0) };
        }
        // What a command came to, or why it came to nothing.
        function outcome(answer) {
          if (answer.isTimedOut) throw new Error('it took too long and was ended');
          const fault = answer.data && answer.data.error;
          if (fault) {
            const error = new Error(fault.message);
            error.exit = answer.exit;
            throw error;
          }
          if (!answer.data) throw new Error(answer.talk || 'exit code ' + answer.exit);
          return answer.data;
        }
        // The key that was sent, if any, is none of this console's.
        function askKey() {
          const isWrong = sessionStorage.getItem('key') !== null;
          sessionStorage.removeItem('key');
          if (document.getElementById('key') && !isWrong) return;
          app.needsKey = true;
          fill(document.getElementById('main'), el('form', { 'data-submit': 'key', class: 'card' },
            el('label', { class: 'wide' }, 'Your key for this console',
              el('input', { id: 'key', name: 'key', type: 'password', required: true,
                autocomplete: 'off' })),
            el('button', { class: 'main' }, 'Come in'),
            isWrong && el('p', { class: 'bad', role: 'alert' }, 'That key is not known.')));
        }
        app.submits.key = form => {
          sessionStorage.setItem('key', form.get('key').trim());
          location.reload();
        };

        // A question whose answer is kept while the view shows it.
        function load(name, question, isAgain) {
          const known = app.cache[name];
          if (known && (known.isLoading || (!isAgain && !known.isOld))) return known;
          const entry = { data: known && known.data, talk: known && known.talk, isLoading: true,
            at: known && known.at, since: Date.now() };
          app.cache[name] = entry;
          ask(question).then(({ data, at, talk }) => { entry.data = data; entry.at = at;
            entry.talk = talk; }, error => { entry.error = error.message; entry.exit = error.exit;
            // That nothing matches is an answer: what was known before is no longer so.
            if (error.exit === 3) { entry.data = null; entry.talk = ''; entry.at = Date.now(); }
            else entry.failedAt = Date.now(); })
            .finally(() => { entry.isLoading = false; draw(); });
          return entry;
        }
        app.actions.again = data => {
          const entry = app.cache[data.name];
          if (entry && !entry.isLoading) entry.isOld = true;
          draw();
        };
        // Who comes to a view sees what is true now. An account reads all tokens, and groups every
        // dead letter: what came of these stays, with its time beside it.
        function forgetAnswers(fresh) {
          if (app.search && !app.search.isLoading) app.search = null;
          for (const [name, entry] of Object.entries(app.cache))
            if (!entry.isLoading && name !== fresh && !name.startsWith('account ')
              && (name !== 'groups' || areGroupsCheap())) entry.isOld = true;
        }
        // Since when an answer is known or an error stands, and a button that asks again.
        function asOf(name, entry, text) {
          return el('p', null, el('button', { type: 'button', 'data-act': 'again',
            'data-name': name }, text || 'Read again'), ' ', entry.at && el('span', { class: 'dim' },
            'as of ', when(entry.at)), !entry.isLoading && entry.failedAt && el('span',
            { class: 'dim' }, entry.at ? ', ' : '', 'asked ', when(entry.failedAt)));
        }
        // What a command said beside its answer, but for what the page says itself.
        function remarks(talk) {
          const lines = (talk || '').split('\n').filter(line => line
            && !/^(the newest |written to |nothing would go)/.test(line));
          return lines.length > 0 && el('p', { class: 'warn' }, lines.join('; '));
        }
        // What is known of dead letters is old now; it stays on the page until it is read anew.
        function forgetDeadLetters() {
          for (const [name, entry] of Object.entries(app.cache))
            if (name.startsWith('dead-letter') || name === 'groups') entry.isOld = true;
        }
        function loading(entry, what) {
          const seconds = entry.isLoading && entry.since ? (Date.now() - entry.since) / 1000 : 0;
          if (entry.isLoading) return el('p', { class: 'dim', 'aria-busy': 'true' },
            'Reading ' + what + '…', seconds > 2 && [' ', el('progress', { 'aria-label': what }), ' ',
              span(seconds)]);
          if (entry.error) return el('p', { class: entry.exit === 3 ? 'dim' : 'bad' },
            entry.error);
          return null;
        }

        // What Kafka did not say although it answers: of that the snapshot knows nothing.
        function kafkaTroubles() {
          return (app.snap ? app.snap.troubles : []).filter(one => one.startsWith('Kafka: '));
        }

        // Where the page is.
        function decoded(part) {
          // What is no encoding is taken as it was typed.
          try { return decodeURIComponent(part); } catch { return part; }
        }
        function place() {
          const parts = location.pathname.split('/').filter(Boolean).map(decoded);
          return { view: parts[0] || 'pipeline', rest: parts.slice(1),
            query: new URLSearchParams(location.search) };
        }
        // A customer's name stays out of addresses, and goes back and forth with them.
        const customerHere = () => (history.state && history.state.customer) || '';
        function go(path, fresh, customer) {
          history.pushState({ customer }, '', path);
          forgetAnswers(fresh);
          draw();
          const main = document.getElementById('main');
          main.focus({ preventScroll: true });
          window.scrollTo(0, 0);
        }

        """#

    /// Draws, listens, and asks for the next snapshot.
    static let start = #"""
        const order = ['pipeline', 'apple', 'dead-letters', 'token', 'purchase', 'account', 'audit'];
        const isKnown = name => Boolean(app.views[name] && app.session);
        // A fault of one view is shown in its place: the page goes on.
        function view(name, here) {
          try {
            return app.views[name].draw(here);
          } catch (error) {
            console.error(error);
            return [el('h1', null, app.views[name].title),
              el('p', { class: 'bad' }, 'This view cannot be drawn: ' + error.message)];
          }
        }
        function draw() {
          if (app.needsKey || !app.session) return;
          const here = place();
          const name = isKnown(here.view) ? here.view : null;
          fill(document.getElementById('nav'), order.filter(isKnown).map(each =>
            el('a', { href: '/' + each, 'aria-current': each === name && 'page' },
              app.views[each].title, each === 'dead-letters' && app.snap && app.snap.deadLetterTotal > 0
                && el('span', { class: 'count' }, number(app.snap.deadLetterTotal)))));
          const main = document.getElementById('main');
          const key = location.pathname + location.search + ' ' + customerHere();
          if (main.dataset.key !== key) { main.dataset.key = key; main.replaceChildren(); }
          const drawn = name ? view(name, here) : [el('h1', null, 'There is no such view')];
          document.title = (name ? app.views[name].title : 'Not found') + ' – Tollway';
          fill(main, drawn);
          drawState();
        }
        function drawState() {
          const state = document.getElementById('state'), banner = document.getElementById('banner');
          const seconds = app.snap ? (app.age + Date.now() - app.gotAt) / 1000 : null;
          const isStale = !app.snap || seconds > 12 || app.fault;
          state.classList.toggle('stale', Boolean(app.snap) && isStale);
          const text = !app.snap ? 'taking a first look…'
            : isStale ? 'stale: as of ' + span(seconds) + ' ago' : 'live';
          if (state.textContent !== text) state.textContent = text;
          const lines = [];
          if (app.fault) lines.push(app.fault);
          else if (app.snap && seconds > 12)
            lines.push('What is shown is ' + span(seconds) + ' old: no new snapshot comes.');
          if (app.snap && !app.snap.clusterId)
            lines.push('Kafka does not answer at ' + app.snap.servers + '.');
          else if (kafkaTroubles().length)
            lines.push('Not all of Kafka could be read. ' + kafkaTroubles().join('; '));
          const line = printable(lines.join(' '));
          if (banner.textContent !== line) banner.textContent = line;
          const foot = app.session ? 'Tollway ' + app.session.version + ' · ' + app.session.person
            + (app.snap ? ' · Kafka ' + app.snap.servers + ' · topics ' + app.snap.prefix + '*' : '')
            : '';
          const footer = document.getElementById('foot');
          if (footer.textContent !== foot) footer.textContent = foot;
        }

        async function take(event) {
          app.fault = null;
          app.snap = event.snapshot;
          app.gotAt = Date.now();
          app.age = event.ageMilliseconds || 0;
          if (event.isActing || event.actChanges !== app.actChanges) await readActs();
          app.actChanges = event.actChanges;
          draw();
        }
        // Server-sent events, by fetch: an EventSource cannot carry a key.
        async function listen() {
          const silence = new AbortController();
          const hush = () => setTimeout(() => silence.abort(), silenceMilliseconds);
          let timer = hush();
          try {
            const headers = { Accept: 'text/event-stream' };
            const key = sessionStorage.getItem('key');
            if (key) headers.Authorization = 'Bearer ' + key;
            const response = await fetch('/api/events', { headers, cache: 'no-store',
              signal: silence.signal });
            if (response.status === 401) { askKey(); throw new Error('A key is needed.'); }
            if (!response.ok) throw new Error((await response.json()).detail);
            const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
            let text = '';
            for (;;) {
              const { value, done } = await reader.read();
              if (done) return;
              clearTimeout(timer);
              timer = hush();
              const parts = (text + value).split('\n\n');
              text = parts.pop();
              for (const part of parts)
                if (part.startsWith('data: ')) await take(JSON.parse(part.slice(6)));
            }
          } finally {
            clearTimeout(timer);
            // No stream stays open beside the next one.
            silence.abort();
          }
        }
        // The console sends an event every five seconds.
        const silenceMilliseconds = 15000;
        async function follow() {
          for (;;) {
            try {
              if (!app.session || app.isLost) {
                app.session = await call('/api/session');
                app.isLost = false;
                draw();
                // What the lost connection still owes is not waited for.
                app.actsReading = null;
                await readActs();
              }
              await listen();
              app.fault = 'The console has ended the connection.';
            } catch (error) {
              if (app.needsKey) return;
              app.fault = error.name === 'AbortError' || error instanceof TypeError
                ? 'The console does not answer: is it still running?' : error.message;
            }
            // One that was started anew knows nothing of this page.
            app.isLost = true;
            drawState();
            await new Promise(done => setTimeout(done, 2000));
          }
        }

        document.addEventListener('click', event => {
          const button = event.target.closest('[data-act]');
          if (button) {
            event.preventDefault();
            // A copy: what is drawn meanwhile may make another button of this one.
            app.actions[button.dataset.act]({ ...button.dataset });
            return;
          }
          const link = event.target.closest('a[href^="/"]');
          if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0) {
            event.preventDefault();
            go(link.getAttribute('href'));
          }
        });
        document.addEventListener('submit', event => {
          event.preventDefault();
          app.submits[event.target.dataset.submit](new FormData(event.target),
            { ...event.target.dataset });
        });
        window.addEventListener('popstate', () => { forgetAnswers(); draw(); });
        setInterval(drawState, 1000);
        follow();

        """#
}
