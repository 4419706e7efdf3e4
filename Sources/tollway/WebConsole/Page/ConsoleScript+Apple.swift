extension ConsoleScript {
    /// Lanes, answers, and whether what is due will be in time.
    static let apple = #"""
        function laneCard(lane, gap) {
          const kind = { open: 'ok', held: 'warn', paused: 'warn' }[lane.state] || 'bad';
          const used = lane.startedPerSecond, allowed = lane.allowedPerSecond;
          const until = lane.until || lane.since;
          const seconds = lane.nextDeadline === undefined ? null
            : (lane.nextDeadline - Date.now()) / 1000;
          return el('section', { class: 'card stage ' + (kind === 'bad' ? 'error'
            : kind === 'warn' ? 'warning' : ''), 'aria-label': 'Lane of ' + lane.appAppleId },
            el('h3', null, el('span', null, lane.appAppleId + ' ' + lane.environment),
              el('span', { class: 'pill ' + (kind === 'ok' ? '' : kind) }, lane.state)),
            el('p', { class: 'dim' }, lane.endpoint),
            used !== undefined && allowed > 0 && el('meter', { min: 0, max: allowed,
              value: Math.min(used, allowed), 'aria-label': 'share of the rate that is used' }),
            facts([
              ['used', rate(used)], ['allowed', rate(allowed)],
              ['set', rate(lane.configuredPerSecond)], ['in flight', number(lane.inFlight)],
              ['due', !gap ? number(lane.due)
                : lane.due ? 'at least ' + number(lane.due) : 'not known'],
              ['first deadline', seconds === null ? undefined : when(lane.nextDeadline),
                seconds !== null && seconds < 0 ? 'bad' : seconds < 86400 ? 'warn' : ''],
              ['why', lane.because], [lane.since ? 'since' : lane.state === 'stopped' ? 'next try'
                : 'until', until && when(until)],
            ]), el('p', { class: 'acts' }, laneActions(lane).map(([action, title]) => [el('button', {
              type: 'button', 'data-act': 'lane', 'data-action': action,
              'data-app': lane.appAppleId, 'data-environment': lane.environment }, title), ' '])));
        }

        // The orders that a lane may be given as it stands; the command has the last word.
        const laneOrders = { pause: 'Pause', resume: 'Resume', reset: 'Try now' };
        const laneMeans = {
          pause: 'Nothing of it is sent to Apple any more, by any replica, until it is resumed. What is'
            + ' due stays due, and its deadline goes on.',
          resume: 'What became due meanwhile goes out, the least time to its deadline first.',
          reset: 'Every replica forgets the rate that it found and the hold that Apple named, and'
            + ' tries the lane at its next turn, with the key read again.',
        };
        function laneActions(lane) {
          const names = lane.state === 'paused' ? ['resume']
            : lane.state === 'open' ? ['pause'] : ['reset', 'pause'];
          return names.map(name => [name, laneOrders[name]]);
        }
        app.actions.lane = async data => {
          const plan = { action: data.action, lane: data.app + ' ' + data.environment,
            isLoading: true };
          app.plan = plan;
          draw();
          try {
            await fillPlan(plan, { action: data.action, app: data.app,
              environment: data.environment });
          } catch (error) {
            plan.error = error.message;
          }
          plan.isLoading = false;
          draw();
          const sure = document.querySelector('#plan [name=why]');
          if (sure) sure.focus();
        };
        function lanePlanView() {
          const plan = app.plan && app.plan.lane ? app.plan : null;
          if (!plan) return null;
          const title = laneOrders[plan.action] + ': ' + plan.lane;
          if (!plan.data) return el('div', { class: 'card', id: 'plan' }, el('h3', null, title),
            plan.isLoading ? el('p', { 'aria-busy': 'true' }, 'Asking how it stands…')
              : el('p', { class: 'bad' }, plan.error));
          return el('div', { class: 'card', id: 'plan' }, el('h3', null, title),
            el('p', null, laneMeans[plan.action]),
            plan.data.lanes.length > 0 && table([{ title: 'Endpoint' }, { title: 'State' },
              { title: 'Due', n: true }, { title: 'First deadline' }], plan.data.lanes.map(lane => [
              lane.endpoint || '–', lane.state || '–', number(lane.due),
              lane.nextDeadline ? when(lane.nextDeadline) : '–']), 'How it stands'),
            el('form', { 'data-submit': 'confirm' },
              el('label', { class: 'wide' }, 'Why, for the audit', el('input', { name: 'why',
                required: true, maxlength: 400, autocomplete: 'off' })),
              el('label', { class: 'check' }, el('input', { type: 'checkbox', name: 'sure',
                required: true }), plan.what),
              el('button', { class: plan.action === 'pause' ? 'danger' : 'main' },
                laneOrders[plan.action])),
            plan.confirmError && el('p', { class: 'bad' }, plan.confirmError));
        }

        function forecastRows() {
          const rows = [];
          for (const lane of app.snap.lanes) {
            for (const day of lane.days || []) {
              rows.push([lane.appAppleId + ' ' + lane.environment, day.day, number(day.due),
                number(day.falling), day.makesIt === undefined ? el('span', { class: 'dim' },
                  'nothing is due') : el('span', { class: day.makesIt ? 'ok' : 'bad' },
                  day.makesIt ? 'in time' : !['open', 'held'].includes(lane.state)
                    ? 'nothing is sent: the lane is ' + lane.state
                    : 'too slow: needs ' + rate(day.needsPerSecond))]);
            }
          }
          return rows;
        }

        app.views.apple = { title: 'Apple', draw() {
          const snap = app.snap;
          if (!snap) return [el('h1', null, 'Apple'), el('p', null, 'Taking a first look…')];
          const days = forecastRows(), answers = snap.answers.filter(answer => answer.count > 0);
          const reported = snap.reported || [];
          const gap = reportGap();
          const notKnown = 'Not known: ' + (hasReport() ? 'see above.' : gap + '.');
          // Lanes, deadlines and answers are what report's admin ports say.
          return [el('h1', null, 'Apple'), adviceList(['apple', 'report', 'kafka']),
            gap && hasReport() && el('p', { class: 'warn' }, 'What is below is incomplete: ' + gap
              + '.'),
            el('h2', null, 'Lanes'),
            snap.lanes.length ? el('div', { class: 'cards' },
              snap.lanes.map(lane => laneCard(lane, gap)))
              : el('p', { class: 'dim' }, !hasReport()
                ? 'No report answers: name its admin port with --admin HOST:9404.'
                : gap ? notKnown : 'No lane has had anything to send since report started.'),
            lanePlanView(), actsList(),
            el('h2', null, 'Deadlines'),
            days.length ? table([{ title: 'Lane' }, { title: 'Day (UTC)' },
              { title: 'Deadlines of due reports', n: true }, { title: 'Fall due', n: true },
              { title: 'At the rate allowed now' }], days, 'Reports by day')
              : el('p', { class: 'dim' }, gap ? notKnown : 'No report is due now. What becomes due'
                + ' later is counted only in lanes that have had something to send; reports of'
                + ' months that will be owed are not counted.'),
            el('h2', null, 'Answers'),
            answers.length ? table([{ title: 'App' }, { title: 'Answer' },
              { title: 'Apple’s code' }, { title: 'Since the start', n: true },
              { title: 'Now', n: true }], answers.sort((a, b) => b.count - a.count)
              .map(answer => [answer.appAppleId + ' ' + answer.environment,
                el('span', { class: answer.status.startsWith('2') ? 'ok'
                  : answer.status === '429' || answer.status === 'not_held' ? 'warn' : 'bad' },
                /^[0-9]/.test(answer.status) ? 'HTTP ' + answer.status
                  : answer.status.replaceAll('_', ' ')),
                answer.code || '–', number(answer.count), rate(answer.perSecond)]), 'Answers')
              : el('p', { class: 'dim' }, gap ? notKnown
                : 'Apple has answered nothing since the workers started.'),
            el('h2', null, 'Told to Apple in the last hour'
              + (snap.reported && !snap.isReportedAll ? ', so far: more are being read' : '')),
            reported.length ? table([{ title: 'App' }, { title: 'Reports', n: true }],
              reported.map(one => [one.appAppleId + ' ' + one.environment,
                number(one.count)]), 'Reports of the last hour')
              : el('p', { class: 'dim' }, snap.reported
                ? snap.isReportedAll ? 'Nothing.' : 'Nothing yet.'
                : 'Not known: Kafka could not be read.'),
          ];
        } };

        """#
}
