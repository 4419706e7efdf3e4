extension ConsoleScript {
    /// Whether every token and every sale is accounted for, and who changed what by hand.
    static let account = #"""
        // One side of an equation, its parts named.
        function sum(parts) {
          return parts.map(([name, value], index) => [index ? ' + ' : '', name, ' ',
            el('b', null, number(value))]);
        }
        // As the command says it: below zero is what never came in.
        function difference(of, one) {
          if (of === 'sales') {
            return one.count < 0 ? ' in the ledger never came in'
              : ' read and found in no ledger, state or dead letter';
          }
          return one.count < 0 ? ' came out of ' + one.stage + ' that never came in'
            : ' came into ' + one.stage + ' and did not come out';
        }
        function equation(line) {
          const isTokens = line.of === 'tokens';
          const left = isTokens ? [['accepted', line.accepted]] : [['received', line.received]];
          const right = isTokens
            ? [['repeats', line.repeats], ['dead letters', line.deadLetters],
              ['reported', line.reported], ['held', line.held], ['on the way', line.onTheWay]]
            : [['repeats', line.repeats], ['reported', line.reported], ['not owed', line.notOwed],
              ['dead letters', line.deadLetters], ['held', line.held],
              ['on the way', line.onTheWay]];
          const missing = left[0][1] - right.reduce((all, part) => all + part[1], 0);
          return el('section', { class: 'card stage' + (line.closes ? '' : ' error'),
            'aria-label': line.of + ' of ' + line.appAppleId },
            el('h3', null, el('span', null, (isTokens ? 'Tokens of ' : 'Sales of ')
              + (line.appAppleId || 'no app')), el('span', { class: 'pill '
                + (line.closes ? '' : 'bad') }, line.closes ? 'closes' : 'does not close')),
            el('p', null, sum(left), ' = ', sum(right)),
            !line.closes && missing !== 0 && el('p', { class: 'bad' }, number(Math.abs(missing))
              + (missing > 0 ? ' are missing on the right' : ' are too many on the right')),
            (line.differences || []).map(one => el('p', { class: 'bad' },
              number(Math.abs(one.count)) + difference(line.of, one))),
            el('p', { class: 'dim' }, line.from > 0 ? 'from ' + instant(line.from)
              : 'from the beginning', ' to ', instant(line.to)),
            line.cannotKnow && el('p', { class: 'warn' }, line.cannotKnow));
        }
        // A span of which nothing was counted, or a month of which not all, is no good news.
        function verdict(closes, lines) {
          const hasLines = lines.some(line => line.of !== 'window');
          const isCounted = hasLines && lines.every(line => line.of !== 'window'
            || line.what !== 'month' && line.from < line.to);
          return el('ul', { class: 'advice' }, el('li', { class: !closes ? 'error'
            : isCounted ? 'good' : 'warning' }, el('b', null, !closes ? 'An account does not close.'
              : isCounted ? 'Every account closes.'
                : hasLines ? 'Nothing that could be counted contradicts.'
                  : 'No token and no sale was counted.'),
            !closes && [el('br'), 'What to do is in RUNBOOK.md, “Does the account close?”.']));
        }
        function monthTable(lines) {
          return table([{ title: 'App' }, { title: 'Month' }, { title: 'Active', n: true },
            { title: 'Reported', n: true }, { title: 'Owed', n: true },
            { title: 'Owes none', n: true }, { title: 'With sales', n: true },
            { title: 'Refused', n: true }, { title: 'Late', n: true },
            { title: 'Due at Apple' }], lines.map(line => [line.appAppleId, line.month,
            number(line.active), number(line.reported),
            el('span', { class: line.owed ? 'warn' : '' }, number(line.owed)),
            number(line.owesNone), number(line.withSales), number(line.refused),
            el('span', { class: line.lateReports ? 'bad' : '' },
              number(line.lateReports)), when(line.deadline)]), 'The month by app');
        }

        app.views.account = { title: 'Account', draw(here) {
          const month = here.query.get('month');
          const name = 'account ' + (month || '');
          const entry = load(name, month ? { ask: 'account', month } : { ask: 'account' });
          const lines = entry.data ? entry.data.accounts : [];
          const of = kind => lines.filter(line => line.of === kind);
          return [el('h1', null, 'Account'),
            el('form', { 'data-submit': 'month' },
              el('label', null, 'Month (UTC)', el('input', { type: 'month', name: 'month',
                value: month || '' })),
              el('button', { class: 'main' }, 'Show'),
              entry.data && el('button', { type: 'button', 'data-act': 'export',
                'data-name': name }, 'Export')),
            asOf(name, entry),
            loading(entry, 'every token and every sale'),
            entry.data && verdict(entry.data.closes, lines),
            of('window').filter(line => line.what === 'month' || !of(line.what).length).map(line =>
              el('p', { class: 'warn' }, line.what + ': ' + line.cannotKnow)),
            of('tokens').length > 0 && [el('h2', null, 'Tokens'),
              el('div', { class: 'cards' }, of('tokens').map(equation))],
            of('sales').length > 0 && [el('h2', null, 'Sales'),
              el('div', { class: 'cards' }, of('sales').map(equation))],
            of('month').length > 0 && [el('h2', null, 'Month'), monthTable(of('month'))],
            el('p', { class: 'dim' }, 'The proof itself, line by line: tollway ledger export.'),
          ];
        } };
        app.submits.month = form => go('/account' + (form.get('month')
          ? '?month=' + encodeURIComponent(form.get('month')) : ''));
        app.actions.export = data => {
          const file = new Blob([JSON.stringify(app.cache[data.name].data, null, 2)],
            { type: 'application/json' });
          const link = el('a', { href: URL.createObjectURL(file),
            download: data.name.trim().replace(' ', '-') + '.json' });
          link.click();
          URL.revokeObjectURL(link.href);
        };

        const auditCountMax = 1000;
        app.views.audit = { title: 'Audit', draw() {
          const entry = load('audit', { ask: 'audit' });
          const lines = entry.data ? Object.values(entry.data).find(Array.isArray) || [] : [];
          // A run has a record for each of its transactions: the newest has the count of all.
          const runs = [...new Set(lines.map(line => line.runId))].map(runId =>
            lines.find(line => line.runId === runId));
          const known = ['at', 'action', 'by', 'why', 'runId', 'part'];
          // A replay goes stage by stage, each from a topic of its own.
          const sources = runId => [...new Set(lines.filter(line => line.runId === runId
            && line.source).map(line => line.source))].join(' and ');
          return [el('h1', null, 'Audit'),
            asOf('audit', entry),
            loading(entry, 'who changed what'),
            runs.length > 0 && table([{ title: 'When' }, { title: 'What' }, { title: 'By' },
              { title: 'Why' }, { title: 'More' }], runs.map(line => [when(line.at),
              line.action, line.by, line.why || '–', Object.entries(line).filter(([name, value]) =>
                !known.includes(name) && value !== null && typeof value !== 'object'
                && !(name === 'count' && line.runCount !== undefined))
                .map(([name, value]) => name + ' ' + (name === 'source' ? sources(line.runId)
                  : value)).join(', ')]), 'Audit'),
            lines.length >= auditCountMax && el('p', { class: 'dim' }, 'Of the newest '
              + number(auditCountMax) + ' records; tollway audit ls --limit shows more.'),
          ];
        } };

        """#
}
