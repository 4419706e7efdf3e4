extension ConsoleScript {
    /// The stages as they flow, and what is wrong with them.
    static let pipeline = #"""
        function adviceList(places) {
          const all = (app.snap ? app.snap.advice : []).filter(advice =>
            !places || places.includes(advice.place));
          const unread = all.length ? [] : kafkaTroubles();
          if (unread.length) return el('ul', { class: 'advice' }, unread.map(one =>
            el('li', { class: 'error' }, one)));
          if (!all.length) return el('ul', { class: 'advice' }, el('li', { class: 'good' },
            app.snap ? 'Nothing is wrong that can be seen from here.' : 'Taking a first look…'));
          return el('ul', { class: 'advice' }, all.map(advice =>
            el('li', { class: advice.severity }, el('b', null, advice.what),
              el('br'), advice.todo, ' ', !advice.todo.includes('RUNBOOK.md') && el('span',
                { class: 'dim' }, '(RUNBOOK.md, “' + advice.section + '”)'))));
        }

        // How far from the door each worker is, by the longest way; Apple's answers, which come
        // back, do not count.
        function depths(workers) {
          const depth = {};
          const writers = worker => workers.filter(other => !other.asksApple
            && other.targets.some(topic => worker.sources.includes(topic)));
          function visit(worker, path) {
            if (path.includes(worker)) return -1;
            depth[worker.worker] ??= Math.max(-1, ...writers(worker).map(writer =>
              visit(writer, [...path, worker]))) + 1;
            return depth[worker.worker];
          }
          for (const worker of workers) visit(worker, []);
          return depth;
        }

        function stageCard(worker) {
          const snap = app.snap || { stages: [], instances: [], advice: [] };
          const stages = snap.stages.filter(stage => stage.worker === worker.worker);
          const instances = snap.instances.filter(one => one.worker === worker.worker);
          const advice = snap.advice.filter(one => one.place === worker.worker
            && one.severity !== 'note');
          const severity = advice.some(one => one.severity === 'error') ? 'error'
            : advice.length ? 'warning' : '';
          const members = stages.map(stage => stage.members).find(count => count !== undefined);
          const count = members !== undefined ? members : instances.length || undefined;
          const ready = instances.filter(one => one.isReady).length;
          const restoring = Math.max(0, ...stages.map(stage => stage.restoring || 0));
          return el('section', { class: 'card stage ' + severity, 'aria-label': worker.worker },
            el('h3', null, worker.worker, count === undefined
              ? el('span', { class: 'pill' }, 'not asked')
              : el('span', { class: 'pill' + (count ? '' : ' bad') },
                count === 1 ? '1 instance' : count + ' instances')),
            instances.length > 0 && ready < instances.length && el('p', { class: 'warn' },
              ready + ' of ' + instances.length + ' ready'),
            restoring > 0 && el('p', { class: 'warn' }, 'restoring ' + restoring
              + (restoring === 1 ? ' partition' : ' partitions')),
            stages.map(stage => el('div', { class: 'topic' },
              el('div', { class: 'name' }, stage.topic),
              stage.lag === undefined ? el('p', { class: 'bad' }, 'the topic is not there')
                : facts([
                  ['in', rate(stage.inPerSecond)],
                  ['done', rate(stage.donePerSecond)],
                  ['lag', number(stage.lag) + (stage.lagSeconds > 0 ? ', '
                    + span(stage.lagSeconds) : ''), stage.lagSeconds > 60 ? 'bad' : ''],
                  ['partitions', stage.assigned === undefined ? number(stage.partitions)
                    : stage.assigned + ' of ' + stage.partitions + ' read',
                    stage.assigned !== undefined && stage.assigned < stage.partitions ? 'warn' : ''],
                ]))),
            !stages.length && el('p', { class: 'dim' }, worker.sources.length
              ? 'Kafka was not asked' : 'takes requests: tokens and notices'),
            advice.map(one => el('p', { class: one.severity === 'error' ? 'bad' : 'warn' },
              one.what)));
        }

        function hasReport() {
          return Boolean(app.snap) && app.snap.instances.some(one => one.worker === 'report');
        }
        // Why what report says is not all that there is; null where it is all.
        function reportGap() {
          const [instances, stages] = [app.snap.instances, app.snap.stages].map(all =>
            all.filter(one => one.worker === 'report'));
          const sum = (all, name) => all.reduce((total, one) => total + (one[name] || 0), 0);
          const members = Math.max(0, ...stages.map(stage => stage.members || 0));
          const partitions = sum(stages, 'partitions'), held = sum(instances, 'partitions');
          if (!instances.length) return 'no report answers';
          if (members > instances.length) return instances.length + ' of ' + members
            + ' instances of report answer here: name the admin port of each with --admin';
          if (sum(instances, 'restoring')) return 'report still restores its state';
          if (!partitions) return 'Kafka does not say how many partitions report has to read';
          return held < partitions ? 'report has ' + held + ' of its ' + partitions + ' partitions'
            : null;
        }
        function appleCard() {
          const gap = app.snap && reportGap();
          const lanes = app.snap ? app.snap.lanes : [];
          const open = lanes.filter(lane => lane.state === 'open').length;
          const isBad = lanes.some(lane => lane.state === 'stopped' || lane.state === 'probing');
          return el('section', { class: 'card stage' + (isBad ? ' error' : ''),
            'aria-label': 'Apple' },
            el('h3', null, el('a', { href: '/apple' }, 'Apple')),
            lanes.length ? facts([
              ['sent', rate(lanes.reduce((sum, lane) => sum + (lane.startedPerSecond || 0), 0))],
              ['allowed', rate(lanes.reduce((sum, lane) => sum + (lane.allowedPerSecond || 0), 0))],
              ['lanes', open + ' of ' + lanes.length + ' open', open < lanes.length ? 'warn' : ''],
              ['due', number(lanes.reduce((sum, lane) => sum + (lane.due || 0), 0))],
            ]) : !gap && el('p', { class: 'dim' }, app.snap
              ? 'no lane has had anything to send since report started' : 'taking a first look…'),
            gap && el('p', { class: hasReport() ? 'warn' : 'dim' }, hasReport()
              ? 'incomplete: ' + gap : 'no report answers: name its admin port with --admin'));
        }

        app.views.pipeline = { title: 'Pipeline', draw() {
          const workers = app.session.pipeline, depth = depths(workers);
          const last = Math.max(...Object.values(depth));
          const flow = [];
          for (let column = 0; column <= last; column += 1) {
            if (column) flow.push(el('div', { class: 'arrow', 'aria-hidden': 'true' }, '→'));
            flow.push(el('div', { class: 'column' }, workers.filter(worker =>
              depth[worker.worker] === column).map(stageCard)));
          }
          flow.push(el('div', { class: 'arrow', 'aria-hidden': 'true' }, '→'));
          flow.push(el('div', { class: 'column' }, appleCard()));
          const doctor = app.cache.doctor;
          return [el('h1', null, 'Pipeline'), adviceList(),
            el('div', { class: 'flow' }, flow),
            el('h2', null, 'Instances'), instanceTable(),
            el('h2', null, 'A closer look'),
            el('p', { class: 'dim' }, 'tollway doctor, with the environment of this console:'
              + ' settings, Kafka, topics, rights, disk. It changes nothing.'),
            el('p', null, el('button', { 'data-act': 'doctor' }, doctor && doctor.data
              ? 'Look again' : 'Look closer'), ' ', doctor && doctor.at
              && el('span', { class: 'dim' }, 'as of ', when(doctor.at))),
            doctor && loading(doctor, 'what doctor finds'),
            doctor && doctor.data && table([{ title: 'Verdict' }, { title: 'Area' },
              { title: 'Found' }, { title: 'What to do' }], doctor.data.findings.map(finding => [
              el('span', { class: finding.verdict === 'failed' ? 'bad'
                : finding.verdict === 'warning' ? 'warn' : '' }, finding.verdict),
              finding.area, finding.finding,
              finding.repair || '']), 'Findings'),
          ];
        } };
        app.actions.doctor = () => { load('doctor', { ask: 'doctor' }, true); draw(); };

        function instanceTable() {
          const instances = app.snap ? app.snap.instances : [];
          if (!instances.length) return el('p', { class: 'dim' },
            'No admin port answers here. Name those of the workers with --admin HOST:PORT.');
          return table([{ title: 'Worker' }, { title: 'Instance' }, { title: 'Admin port' },
            { title: 'Ready' }, { title: 'Partitions', n: true }, { title: 'Restoring', n: true },
            { title: 'Useful replicas', n: true }],
            instances.map(one => [one.worker || '–', one.instance || '–', one.address,
              el('span', { class: one.isReady ? 'ok' : 'bad' }, one.worker === undefined
                ? 'no answer' : one.isReady ? 'yes' : 'no'),
              number(one.partitions), number(one.restoring), number(one.usefulReplicas)]),
            'Instances');
        }

        """#
}
