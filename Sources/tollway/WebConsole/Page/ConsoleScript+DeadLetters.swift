extension ConsoleScript {
    /// Groups of dead letters, single ones, and one whole.
    static let deadLetters = #"""
        const filterNames = ['stage', 'code', 'fingerprint', 'app', 'environment', 'since', 'until',
          'token', 'grep'];
        function filterOf(query) {
          const filter = {};
          for (const name of filterNames) {
            const values = query.getAll(name).filter(Boolean);
            if (values.length) filter[name] = values;
          }
          return filter;
        }
        // Names of groups whose dead letters have no code, or each another: no filter finds these.
        const notCodes = ['unknown', 'other', '(none)'];
        const hasCode = group => Boolean(group.code) && !notCodes.includes(group.code);
        const isFound = group => Boolean(group.fingerprint) || hasCode(group);
        // No link where it would show the whole stage: a plan made there would be for all of it.
        function groupLink(group) {
          const name = group.code || '(none)';
          if (!isFound(group)) return name;
          const query = new URLSearchParams({ stage: group.stage });
          if (hasCode(group)) query.append('code', group.code);
          if (group.fingerprint) query.append('fingerprint', group.fingerprint);
          return el('a', { href: '/dead-letters?' + query }, name);
        }

        // Kinds, apps and deadlines take a look at every dead letter: where there are many, on request.
        const groupsCountMax = 50000;
        function areGroupsCheap() {
          return Boolean(app.snap) && app.snap.areDeadLettersAll
            && app.snap.deadLetterTotal <= groupsCountMax;
        }
        function groupTable() {
          const snap = app.snap;
          const isRead = app.cache.groups || areGroupsCheap();
          const entry = isRead ? load('groups', { ask: 'groups' }) : {};
          const isKnown = snap && snap.deadLetterTotal !== null;
          const read = entry.data ? entry.data.groups : [];
          const counted = snap ? snap.deadLetters : [];
          const rows = read.length ? read.map(group => [
            groupLink(group),
            number(group.count), when(group.firstFailedAt), when(group.lastFailedAt),
            group.nearestDeadline ? when(group.nearestDeadline) : '–',
            group.apps.slice(0, 3).map(one => one.appAppleId + ' (' + number(one.count) + ')')
              .join(', ') + (group.apps.length > 3 ? ' …' : '') || '–',
            el('span', null, group.message, ' ', el('span', { class: 'dim mono' },
              group.fingerprint)),
          ]) : counted.map(group => [groupLink(group), number(group.count), when(group.newest)]);
          const columns = read.length ? [{ title: 'Code' }, { title: 'Dead letters', n: true },
            { title: 'First' }, { title: 'Last' }, { title: 'Due at Apple' }, { title: 'Apps' },
            { title: 'Message and kind' }]
            : [{ title: 'Code' }, { title: 'Dead letters', n: true }, { title: 'Last' }];
          return [
            el('p', { class: 'dim' }, !snap ? '' : !isKnown
              ? 'How many are open is not known: Kafka '
                + (snap.clusterId ? 'could not be read. ' : 'does not answer. ')
              : number(snap.deadLetterTotal) + ' are open'
                + (snap.areDeadLettersAll ? '' : ', and more are being read') + '. ',
              entry.at ? ['Groups as of ', when(entry.at), '. '] : '',
              el('button', { 'data-act': 'groups' }, isRead ? 'Read again'
                : 'Read kinds, apps and deadlines')),
            loading(entry, 'kinds, apps and deadlines of every open dead letter'),
            remarks(entry.talk),
            !(read.length ? read : counted).every(isFound) && el('p', { class: 'dim' },
              'A group without a link has no code that a filter finds. Read the kinds, or filter by'
              + ' the stage.'),
            rows.length > 0 ? table(columns, rows, 'Groups')
              : !entry.isLoading && !entry.error && isKnown && snap.areDeadLettersAll
                && snap.deadLetterTotal === 0 && el('p', { class: 'ok' }, 'No dead letter is open.'),
          ];
        }
        app.actions.groups = () => { load('groups', { ask: 'groups' }, true); draw(); };

        function advise(code) {
          if (!code) return null;
          const advice = app.session.deadLetterAdvice[code];
          return el('ul', { class: 'advice' }, el('li', { class: 'warning' }, advice
            ? [el('b', null, advice.means), el('br'), advice.todo] : 'What ' + code + ' means is in'
              + ' RUNBOOK.md, “' + (code.startsWith('purchases.') ? 'A sale is refused'
              : 'Dead letters grow') + '”.'));
        }

        // Where the dead letters of one group were last seen: the command begins there, not at the end.
        function narrowed(filter, isAll) {
          const isOne = [filter.stage, filter.code].every(values => values && values.length === 1);
          const group = isOne && app.snap && app.snap.areDeadLettersAll && !isAll && !filter.until
            && app.snap.deadLetters.find(one => one.stage === filter.stage[0]
              && one.code === filter.code[0]);
          return group && group.newest ? { ...filter,
            until: new Date(group.newest + 600000).toISOString() } : filter;
        }
        function listView(here) {
          const filter = filterOf(here.query), isAll = here.query.has('all');
          const name = 'dead-letters ' + here.query;
          const entry = load(name, { ask: 'dead-letters', filter: narrowed(filter, isAll), all: isAll,
            limit: 50 });
          const records = entry.data ? entry.data.deadLetters : [];
          const words = Object.entries(filter).map(([each, values]) => each + ' '
            + values.join(' or ')).join(', ');
          return [
            el('p', { class: 'crumbs' }, el('a', { href: '/dead-letters' }, 'Dead letters'), ' / ', words),
            el('h1', null, (filter.code || filter.stage || ['Dead letters']).join(', ')),
            (filter.code || []).map(advise),
            filterForm(filter, isAll),
            asOf(name, entry),
            loading(entry, 'the newest dead letters'), remarks(entry.talk),
            records.length > 0 && table([{ title: 'Dead letter' }, { title: 'Failed' },
              { title: 'Due at Apple' }, { title: 'App' }, { title: 'Attempts', n: true },
              { title: 'State' }, { title: 'Code' }, { title: 'Message' }], records.map(record => [
              el('a', { href: '/dead-letters/' + record.position, class: 'mono' }, record.position),
              when(record.failedAt), record.deadline ? when(record.deadline) : '–',
              record.appAppleId || '–', number(record.attempts), record.state, record.code || '–',
              record.message || '']), 'Dead letters'),
            records.length === 50 && el('p', { class: 'dim' }, 'The newest 50; a plan counts all.'),
            records.length > 0 ? planForms(filter) : actsList(),
          ];
        }
        function filterForm(filter, isAll) {
          const field = (name, title) => el('label', null, title, (filter[name] || ['']).map(value =>
            el('input', { name, value, autocomplete: 'off' })));
          return el('details', null, el('summary', null, 'Filter'),
            el('form', { 'data-submit': 'filter' }, field('stage', 'Stage'), field('code', 'Code'),
              field('fingerprint', 'Kind'), field('app', 'App'),
              field('since', 'Failed since (90m, 7d, time)'), field('until', 'Failed until'),
              field('token', 'Token'), field('grep', 'Text in it'),
              el('label', { class: 'check' }, el('input', { type: 'checkbox', name: 'all',
                checked: isAll }), 'also replayed and discarded ones'),
              el('button', { class: 'main' }, 'Show')));
        }
        app.submits.filter = form => {
          const query = new URLSearchParams();
          for (const [name, value] of form) if (value.trim()) query.append(name, value.trim());
          go('/dead-letters?' + query);
        };

        function deadLetterView(position) {
          const isShown = app.revealed === position;
          const name = 'dead-letter ' + position + isShown;
          const entry = load(name, { ask: 'dead-letter', id: position, reveal: isShown });
          const record = entry.data && entry.data.deadLetters && entry.data.deadLetters[0];
          const head = [el('p', { class: 'crumbs' }, el('a', { href: '/dead-letters' }, 'Dead letters'),
            record ? [' / ', groupLink(record)] : ''),
          el('h1', null, 'Dead letter ', el('span', { class: 'mono' }, position)),
          asOf(name, entry), loading(entry, 'the dead letter')];
          if (!record) return head;
          const from = record.source;
          return [...head, advise(record.code),
            el('div', { class: 'card' }, facts([
              ['state', record.state, record.state === 'open' ? 'warn' : ''],
              ['code', record.code], ['message', record.message], ['kind', record.fingerprint],
              ['failed', when(record.failedAt)], ['first failed', when(record.firstFailedAt)],
              ['attempts', number(record.attempts)], ['replays', number(record.replayCount)],
              ['came from', from.topic && from.topic + '/' + from.partition + '/' + from.offset],
              ['app', record.appAppleId && record.appAppleId + ' ' + (record.bundleId || '')],
              ['token', record.externalPurchaseId && el('a', { href: '/token/'
                + encodeURIComponent(record.externalPurchaseId) }, record.externalPurchaseId)],
              ['environment', record.environment],
              ['due at Apple', record.deadline && when(record.deadline)],
              ['report', record.status && record.status + ' ' + (record.requestIdentifier || '')],
              ['key', record.key === null ? 'none' : record.key],
            ])),
            el('h2', null, 'Value', record.masked && el('span', { class: 'dim' },
              ' (tokens, payloads and customers are masked)')),
            el('pre', { tabindex: 0 }, record.value === null ? 'none' : record.value),
            record.valueBase64 && [el('h3', null, 'Value, base64'),
              el('pre', { tabindex: 0 }, record.valueBase64)],
            el('p', null, el('button', { 'data-act': 'reveal', 'data-position': position },
              isShown ? 'Mask it' : 'Show its bytes')),
            el('h2', null, 'Headers'),
            Object.keys(record.headers || {}).length ? table([{ title: 'Name' }, { title: 'Value' }],
              Object.entries(record.headers).map(([name, value]) => [el('span', { class: 'mono' },
                name), value === null ? 'none' : value]), 'Headers')
              : el('p', { class: 'dim' }, 'None of its own.'),
            record.state === 'open' ? planForms(positionFilter(position)) : actsList(),
          ];
        }
        function positionFilter(position) {
          const [stage, partition, offset] = position.split('/');
          return { stage, partition, offset };
        }
        app.actions.reveal = data => {
          app.revealed = app.revealed === data.position ? null : data.position;
          draw();
        };

        app.views['dead-letters'] = { title: 'Dead letters', draw(here) {
          if (here.rest.length === 3) return deadLetterView(here.rest.join('/'));
          if ([...here.query.keys()].length) return listView(here);
          return [el('h1', null, 'Dead letters'), groupTable(),
            filterForm({}, false), actsList()];
        } };

        """#
}
