extension ConsoleScript {
    /// Plans and what is done by them; a plan is shown before it can be confirmed.
    static let acts = #"""
        function planForms(filter) {
          const text = JSON.stringify(filter);
          const plan = app.plan && app.plan.filter === text ? app.plan : null;
          return [el('h2', { id: 'do' }, 'Do something about them'),
            el('p', { class: 'dim' }, 'Mend the cause first. Then plan, read what would happen, and'
              + ' confirm it. A dead letter goes back once, never twice.'),
            el('form', { 'data-submit': 'plan', 'data-filter': text, class: 'card' },
              el('label', null, 'What', el('select', { name: 'action' },
                el('option', { value: 'replay' }, 'send them back (replay)'),
                el('option', { value: 'discard' }, 'give them up (discard)'))),
              el('label', null, 'Try so many of each stage first (canary)', el('input', { name: 'canary',
                inputmode: 'numeric', pattern: '[0-9]*', autocomplete: 'off',
                placeholder: 'none' })),
              el('label', null, 'At most', el('input', { name: 'max', inputmode: 'numeric',
                pattern: '[0-9]*', autocomplete: 'off', placeholder: 'all' })),
              el('label', null, 'A second', el('input', { name: 'rate', inputmode: 'numeric',
                pattern: '[0-9]*', autocomplete: 'off', placeholder: 'replay 1000' })),
              el('button', null, 'Plan')),
            plan && planView(plan), actsList()];
        }
        app.submits.plan = async (form, data) => {
          const plan = { filter: data.filter, action: form.get('action'), isLoading: true };
          app.plan = plan;
          draw();
          try {
            const body = { action: plan.action, filter: JSON.parse(data.filter) };
            for (const name of ['canary', 'max', 'rate']) {
              const value = form.get(name).trim();
              if (value && !(name === 'canary' && plan.action === 'discard'))
                body[name] = Number(value);
            }
            plan.canary = body.canary;
            await fillPlan(plan, body);
          } catch (error) {
            plan.error = error.message;
          }
          plan.isLoading = false;
          draw();
        };
        // Asks for the numbers of a plan.
        async function fillPlan(plan, body) {
          const answer = await call('/api/plans', body);
          plan.data = outcome(answer);
          plan.talk = answer.talk;
          plan.id = answer.plan;
          plan.go = answer.go;
          plan.what = answer.what;
        }

        function planView(plan) {
          if (!plan.data) return el('div', { class: 'card', id: 'plan' },
            plan.isLoading ? el('p', { 'aria-busy': 'true' }, 'Reading every dead letter that matches…')
              : el('p', { class: 'bad' }, plan.error));
          const data = plan.data, isReplay = plan.action === 'replay';
          return el('div', { class: 'card', id: 'plan' },
            el('h3', null, isReplay ? 'What a replay would do' : 'What a discard would do'),
            facts([['matched', number(data.matched)],
              [isReplay ? 'go back' : 'go to the archive', number(data.go), 'ok'],
              ['skipped', number(data.skipped), data.skipped ? 'warn' : ''],
              ['beyond the limit', data.beyondMax ? number(data.beyondMax) : undefined],
              ['canary', plan.canary && number(plan.canary) + ' of each stage first; the rest if no'
                + ' more than a tenth fails again'],
              [plan.canary ? 'takes at least' : 'takes', data.secondsAtRate === null ? undefined
                : span(data.secondsAtRate)],
              ['filter', data.filter]]),
            remarks(plan.talk),
            data.targets.length > 0 && table([{ title: 'To' }, { title: 'Dead letters', n: true }],
              data.targets.map(one => [one.topic, number(one.count)]), 'Where they go'),
            data.skipReasons.length > 0 && table([{ title: 'Skipped' }, { title: 'Dead letters', n: true },
              { title: 'Why' }, { title: 'Such as' }], data.skipReasons.map(one => [one.why,
              number(one.count), one.sentence, one.examples.map(example => [el('a',
                { href: '/dead-letters/' + example }, example), ' '])]), 'What is skipped'),
            data.go > 0 && plan.id && el('form', { 'data-submit': 'confirm' },
              el('label', { class: 'wide' }, 'Why, for the audit', el('input', { name: 'why',
                required: true, maxlength: 400, autocomplete: 'off' })),
              el('label', { class: 'check' }, el('input', { type: 'checkbox', name: 'sure',
                required: true }), isReplay ? number(data.go) + ' go back'
                : number(data.go) + ' are given up for good'),
              el('button', { class: isReplay ? 'main' : 'danger' },
                (isReplay ? 'Send back ' : 'Discard ') + number(data.go))),
            data.go === 0 && el('p', { class: 'warn' }, 'Nothing would go.'),
            plan.confirmError && el('p', { class: 'bad' }, plan.confirmError));
        }
        app.submits.confirm = async form => {
          const plan = app.plan;
          try {
            await call('/api/acts', { plan: plan.id, go: plan.go, why: form.get('why') });
            app.plan = null;
            await readActs();
          } catch (error) {
            plan.confirmError = error.message;
          }
          draw();
        };

        // One reading at a time; while an act is under way, one a second.
        function readActs() {
          if (app.actsReading) return app.actsReading;
          const reading = readActsOnce().finally(() => {
            if (app.actsReading === reading) app.actsReading = null;
          });
          app.actsReading = reading;
          return reading;
        }
        async function readActsOnce() {
          clearTimeout(app.actsTimer);
          app.acts = (await call('/api/acts')).acts;
          const ended = app.acts.filter(act => act.exit !== undefined).map(act => act.act);
          // One that took no longer than an event was never seen under way.
          if (app.ended && ended.some(act => !app.ended.includes(act))) forgetDeadLetters();
          app.ended = ended;
          if (ended.length < app.acts.length)
            app.actsTimer = setTimeout(() => readActs().then(draw, () => {}), 1000);
        }
        app.actions.stop = async data => {
          try {
            await call('/api/acts/stop', { act: Number(data.number) });
            app.stopFault = null;
          } catch (error) {
            app.stopFault = { number: Number(data.number), message: error.message };
          }
          // Where they cannot be read now, the next event reads them.
          await readActs().catch(() => {});
          draw();
        };
        const exits = { 0: 'done', 3: 'nothing was to be done', 4: 'partly done',
          5: 'stopped by a safety rule', 75: 'try again', 130: 'interrupted' };
        const isOfLane = act => ['pause', 'resume', 'reset'].includes(act.action);
        function actsList() {
          if (!app.acts.length) return null;
          return [el('h2', null, 'What was done from this console'),
            table([{ title: 'When' }, { title: 'What' }, { title: 'By' }, { title: 'Why' },
              { title: 'State' }, { title: '' }], app.acts.slice().reverse().map(act => [
              when(act.startedAt), act.action + ' of ' + (act.go > 1 ? number(act.go) + ' ' : '')
                + act.what, act.by, act.why,
              act.exit === undefined ? 'under way…' : el('span', { class: act.exit ? 'bad' : 'ok' },
                (isOfLane(act) && act.exit === 3 ? 'it was not paused'
                  : exits[act.exit] || 'failed') + (act.data && act.data.sent !== undefined
                  ? ': ' + number(act.data.sent)
                    + (act.action === 'discard' ? ' given up' : ' sent')
                  : act.data && act.data.error
                    ? ': ' + act.data.error.message : '')),
              act.exit === undefined ? [el('button', { class: 'danger', 'data-act': 'stop',
                'data-number': act.act }, 'Stop'), app.stopFault && app.stopFault.number === act.act
                && el('span', { class: 'bad' }, ' ', app.stopFault.message)] : el('span', { class: 'dim' },
                act.talk.trim().split('\n').slice(-1)[0])]), 'Acts')];
        }

        """#
}
