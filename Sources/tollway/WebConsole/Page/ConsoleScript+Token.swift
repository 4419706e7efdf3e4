extension ConsoleScript {
    /// A token's way as a time line; a sale's way and an account where there are commands for them.
    static let token = #"""
        function timeLine(events) {
          return el('ol', { class: 'line' }, events.map(event => el('li', {
            class: event.stage === 'apple' ? 'apple'
              : String(event.topic || '').startsWith('dlq.') ? 'letter' : '' },
            el('div', null, el('b', null, event.stage), ' ', event.event),
            el('div', { class: 'dim' }, instant(event.at), ' · ', el('span', { class: 'mono' },
              event.topic + '/' + event.partition + '/' + event.offset),
              event.requestIdentifier ? ' · ' + event.requestIdentifier : ''))));
        }
        function searchForm(view, label, value) {
          return el('form', { 'data-submit': 'search', 'data-view': view },
            el('label', { class: 'wide' }, label, el('input', { name: 'id', value, required: true,
              autocomplete: 'off', spellcheck: 'false' })),
            el('button', { class: 'main' }, 'Trace'));
        }
        app.submits.search = async (form, data) => {
          const id = form.get('id').trim();
          if (data.view === 'token' && (id.length > 60 || id.includes('://'))) {
            // The text of a token stays out of addresses: the answer names its id.
            app.search = { isLoading: true };
            draw();
            try {
              const found = await ask({ ask: 'token', id });
              app.cache['token ' + found.externalPurchaseId] = { data: found, at: Date.now() };
              app.search = null;
              go('/token/' + encodeURIComponent(found.externalPurchaseId));
            } catch (error) {
              app.search = { error: error.message, exit: error.exit };
              draw();
            }
            return;
          }
          app.search = null;
          go('/' + data.view + '/' + encodeURIComponent(id));
        };

        app.views.token = { title: 'Token', ask: 'token', draw(here) {
          const id = here.rest[0];
          const head = [el('h1', null, 'Token'),
            searchForm('token', 'Its externalPurchaseId, its text, or the link with it', id || '')];
          if (!id) return [...head, app.search && loading(app.search, 'its way'),
            el('p', { class: 'dim' }, 'Where it came in, what each stage made of it, what Apple was'
              + ' told and answered, and what is owed now.')];
          const entry = load('token ' + id, { ask: 'token', id });
          const found = entry.data;
          if (!found) return [...head, loading(entry, 'its way')];
          return [...head,
            el('p', null, el('button', { 'data-act': 'retrace', 'data-id': id }, 'Read again'), ' ',
              el('span', { class: 'dim' }, 'as of ', when(entry.at))),
            loading(entry, 'its way'),
            el('h2', null, 'Now'),
            el('div', { class: 'card' }, found.now.map(line => el('p', null, el('b', null, line))),
              facts([['token', found.externalPurchaseId], ['environment', found.environment],
                ['app', found.appAppleId && found.appAppleId + ' ' + (found.bundleId || '')],
                ['role', found.role], ['last accepted', found.lastAccepted],
                ['to be reported', found.pendingStatus],
                ['due', found.dueAt && when(found.dueAt)],
                ['deadline', found.deadline && when(found.deadline)],
                ['trace', found.traceIds.join(', ')]])),
            found.deadLetters.length > 0 && [el('h2', null, 'Dead letters'),
              el('ul', null, found.deadLetters.map(letter => el('li', null,
                el('a', { href: '/letters/' + letter.position }, letter.position), ' ',
                letter.code || '', ' ', letter.state || '')))],
            el('h2', null, 'What happened'), timeLine(found.events),
            found.notes.map(note => el('p', { class: 'warn' }, note)),
          ];
        } };
        app.actions.retrace = data => { load('token ' + data.id, { ask: 'token', id: data.id },
          true); draw(); };

        // Whatever a command says, as facts and tables.
        function generic(value, label) {
          if (Array.isArray(value)) {
            const isFlat = value.every(one => one && typeof one === 'object'
              && !Array.isArray(one));
            if (!value.length) return el('p', { class: 'dim' }, 'none');
            if (!isFlat) return el('p', null, value.map(String).join(', '));
            const names = [...new Set(value.flatMap(one => Object.keys(one)))];
            return table(names.map(name => ({ title: name,
              n: value.every(one => typeof one[name] === 'number' || one[name] === undefined) })),
            value.map(one => names.map(name => cell(one[name], name))), label);
          }
          const entries = Object.entries(value);
          return [facts(entries.filter(pair => !pair[1] || typeof pair[1] !== 'object')
            .map(([name, one]) => [name, cell(one, name), one === false ? 'bad' : ''])),
          entries.filter(pair => pair[1] && typeof pair[1] === 'object').map(([name, one]) =>
            [el('h2', null, name), generic(one, name)])];
        }
        function cell(value, name) {
          if (value === undefined || value === null) return '–';
          if (typeof value === 'object') return JSON.stringify(value);
          if (typeof value === 'number' && (/At$|deadline/i.test(name))) return when(value);
          if (value === false) return el('span', { class: 'bad' }, 'no');
          if (value === true) return el('span', { class: 'ok' }, 'yes');
          return typeof value === 'number' && !/Id$/.test(name) ? number(value) : String(value);
        }

        app.views.purchase = { title: 'Purchase', ask: 'purchase', draw(here) {
          const id = here.rest[0], customer = here.query.get('customer');
          const head = [el('h1', null, 'Purchase'),
            searchForm('purchase', 'Its lineItemId', id || '')];
          if (!id) return head;
          const question = { ask: 'purchase', id };
          if (customer) question.customer = customer;
          const entry = load('purchase ' + id + ' ' + customer, question);
          if (!entry.data) return [...head, loading(entry, 'its way')];
          const { events, ...rest } = entry.data;
          return [...head, el('div', { class: 'card' }, generic(rest, 'Purchase')),
            events && [el('h2', null, 'What happened'), timeLine(events)]];
        } };
        app.views.account = { title: 'Account', ask: 'account', draw() {
          const entry = load('account', { ask: 'account' });
          return [el('h1', null, 'Account'),
            el('p', null, el('button', { 'data-act': 'account' }, 'Read again'), ' ',
              entry.at && el('span', { class: 'dim' }, 'as of ', when(entry.at)), ' ',
              entry.data && el('button', { 'data-act': 'export' }, 'Export')),
            loading(entry, 'the ledger'), entry.data && generic(entry.data, 'Account')];
        } };
        app.actions.account = () => { load('account', { ask: 'account' }, true); draw(); };
        app.actions.export = () => {
          const file = new Blob([JSON.stringify(app.cache.account.data, null, 2)],
            { type: 'application/json' });
          const link = el('a', { href: URL.createObjectURL(file), download: 'account.json' });
          link.click();
          URL.revokeObjectURL(link.href);
        };

        """#
}
