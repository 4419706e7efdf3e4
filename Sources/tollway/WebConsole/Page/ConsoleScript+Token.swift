extension ConsoleScript {
    /// The way of a token, or of a sale, as a time line.
    static let token = #"""
        function timeLine(events) {
          return el('ol', { class: 'line' }, events.map(event => el('li', {
            class: event.stage === 'apple' ? 'apple'
              : String(event.topic || '').startsWith('dlq.') ? 'dead-letter' : '' },
            el('div', null, el('b', null, event.stage), ' ', event.event),
            el('div', { class: 'dim' }, instant(event.at), ' · ', el('span', { class: 'mono' },
              event.topic + '/' + event.partition + '/' + event.offset),
              event.requestIdentifier ? ' · ' + event.requestIdentifier : ''))));
        }
        function searchForm(view, label, value) {
          return el('form', { 'data-submit': 'search', 'data-view': view },
            el('label', { class: 'wide' }, label, el('input', { name: 'id', value, required: true,
              autocomplete: 'off', spellcheck: 'false' })),
            view === 'purchase' && el('label', null, 'Its customer, where known',
              el('input', { name: 'customer', value: customerHere(),
                autocomplete: 'off' })),
            el('button', { class: 'main' }, 'Trace'));
        }
        app.submits.search = async (form, data) => {
          const id = form.get('id').trim();
          if (data.view === 'token' && (id.length > 60 || id.includes('://'))) {
            // The text of a token stays out of addresses: the answer names its id.
            app.search = { isLoading: true };
            draw();
            try {
              const { data: found, at } = await ask({ ask: 'token', id });
              const name = 'token ' + found.externalPurchaseId;
              app.cache[name] = { data: found, at };
              app.search = null;
              go('/token/' + encodeURIComponent(found.externalPurchaseId), name);
            } catch (error) {
              app.search = { error: error.message, exit: error.exit };
              draw();
            }
            return;
          }
          app.search = null;
          go('/' + data.view + '/' + encodeURIComponent(id), undefined,
            (form.get('customer') || '').trim());
        };

        // How it stands, where it lies among the dead letters, and what happened.
        function standing(found, pairs) {
          return [el('h2', null, 'Now'),
            el('div', { class: 'card' }, found.now.map(line => el('p', null, el('b', null, line))),
              facts(pairs)),
            found.deadLetters.length > 0 && [el('h2', null, 'Dead letters'),
              el('ul', null, found.deadLetters.map(record => el('li', null,
                el('a', { href: '/dead-letters/' + record.position }, record.position), ' ',
                record.code || '', ' ', record.state || '')))],
            el('h2', null, 'What happened'), timeLine(found.events),
            found.notes.map(note => el('p', { class: 'warn' }, note))];
        }

        app.views.token = { title: 'Token', draw(here) {
          const id = here.rest[0];
          const head = [el('h1', null, 'Token'),
            searchForm('token', 'Its externalPurchaseId, its text, or the link with it', id || '')];
          if (!id) return [...head, app.search && loading(app.search, 'its way'),
            el('p', { class: 'dim' }, 'Where it came in, what each stage made of it, what Apple was'
              + ' told and answered, and what is owed now.')];
          const name = 'token ' + id, entry = load(name, { ask: 'token', id });
          const found = entry.data;
          return [...head, asOf(name, entry), loading(entry, 'its way'),
            found && standing(found, [['token', found.externalPurchaseId],
              ['environment', found.environment],
              ['app', found.appAppleId && found.appAppleId + ' ' + (found.bundleId || '')],
              ['role', found.role], ['last accepted', found.lastAccepted],
              ['to be reported', found.pendingStatus], ['due', found.dueAt && when(found.dueAt)],
              ['deadline', found.deadline && when(found.deadline)],
              ['trace', found.traceIds.join(', ')]]),
          ];
        } };

        app.views.purchase = { title: 'Purchase', draw(here) {
          const id = here.rest[0];
          const head = [el('h1', null, 'Purchase'),
            searchForm('purchase', 'Its lineItemId', id || '')];
          if (!id) return [...head, el('p', { class: 'dim' }, 'Where a sale is, under which token'
            + ' Apple was told of it, and what it answered.')];
          const question = { ask: 'purchase', id }, customer = customerHere();
          if (customer) question.customer = customer;
          const name = 'purchase ' + id + ' ' + customer;
          const entry = load(name, question), found = entry.data;
          // A settled sale waits for nothing.
          const waits = found && found.waitsFor !== 'idle' ? found : {};
          return [...head, asOf(name, entry), loading(entry, 'its way'),
            found && standing(found, [['sale', found.lineItemId],
              ['app', found.appAppleId || found.bundleId], ['outcome', found.outcome],
              ['reason', found.reason], ['revision', found.revision],
              ['token', found.externalPurchaseId && el('a', { href: '/token/'
                + encodeURIComponent(found.externalPurchaseId) }, found.externalPurchaseId)],
              ['request', found.requestIdentifier], ['waits for', waits.waitsFor],
              ['until', waits.waitsUntil && when(waits.waitsUntil)],
              ['since', waits.waitingSince && when(waits.waitingSince)]])];
        } };

        """#
}
