extension ScriptPage {
    /// A snapshot, acts and answers with something of everything.
    static let full = #"""
        const full = now => {
          const app = { appAppleId: 1, environment: 'production', bundleId: 'com.example' };
          const lane = { ...app, endpoint: 'https://apple.example', state: 'held', because: '429',
            until: now + 60000, allowedPerSecond: 5, configuredPerSecond: 10,
            startedPerSecond: 4.5, inFlight: 3, due: 12, nextDeadline: now + 3600000, days: [
              { day: '2027-01-15', due: 12, falling: 2, makesIt: false, needsPerSecond: 3 },
              { day: '2027-01-16', due: 1, falling: 1, makesIt: true, needsPerSecond: 1 },
              { day: '2027-01-17', due: 0, falling: 0 }] };
          const group = { stage: 'decode', code: 'decode.x', count: 3 };
          const record = { ...app, ...group, position: 'decode/0/1', fingerprint: 'ab',
            message: 'm', failedAt: now - 5000, firstFailedAt: now - 9000, deadline: now + 9000,
            attempts: 2, replayCount: 1, state: 'open', key: 'k', value: 'v', valueBase64: 'dg==',
            masked: true, headers: { trace: 't', none: null }, status: 'UNRECOGNIZED_APP',
            requestIdentifier: 'r', externalPurchaseId: 'a',
            source: { topic: 't', partition: 0, offset: 7 } };
          const way = { ...app, now: ['due'], deadLetters: [record], notes: ['a note'],
            traceIds: ['t'], externalPurchaseId: 'a', events: [{ stage: 'apple', event: 'answered',
              at: now, topic: 'dlq.x', partition: 0, offset: 1, requestIdentifier: 'r' }],
            role: 'buyer', lastAccepted: 'x', pendingStatus: 'REPORTED', dueAt: now, deadline: now };
          const account = { ...app, closes: false, from: 1, to: now, repeats: 1, deadLetters: 1,
            reported: 5, held: 1, onTheWay: 1, cannotKnow: 'what is gone',
            differences: [{ stage: 'decode', count: -1 }] };
          return {
            more: {
              stages: [
                { worker: 'report', topic: 't', end: 9, committed: 4, lag: 5, lagSeconds: 90,
                  partitions: 2, members: 2, assigned: 1, restoring: 1, inPerSecond: 1,
                  donePerSecond: 2 },
                { worker: 'report', topic: 'u', lag: null, partitions: 2 },
                { worker: 'report', topic: 'v', partitions: 0 }],
              lanes: [lane, { ...app, endpoint: 'e', state: 'stopped', since: now, inFlight: 0,
                days: [] }],
              answers: [{ ...app, status: '200', count: 9, perSecond: 1.5 },
                { ...app, status: '429', count: 2 },
                { ...app, status: 'no_answer', code: 'x', count: 1 }],
              reported: [{ appAppleId: 1, environment: 'production', count: 1234 }],
              deadLetterTotal: 3, deadLetters: [{ ...group, newest: now - 5000 }],
              instances: [{ address: 'h:9404', worker: 'report', instance: 'r1', isReady: true,
                partitions: 2, restoring: 1, usefulReplicas: 4 }, { address: 'h:9405' }],
              troubles: ['h:9405: no answer'],
              advice: ['report', 'apple', 'kafka'].map(place => ({ place, severity: 'error',
                what: 'of ' + place + ': decode.x', todo: 'see', section: 's' })) },
            acts: [{ act: 1, action: 'replay', go: 2, what: 'dead letters', by: 'mia', why: 'w',
              startedAt: now, talk: 'sent', exit: 0, data: { sent: 2 } },
            { act: 2, action: 'pause', go: 1, what: 'the lane', by: 'mia', why: 'w',
              startedAt: now, talk: '', exit: 1, data: { error: { message: 'no' } } },
            { act: 3, action: 'discard', go: 1, what: 'dead letters', by: 'mia', why: 'w',
              startedAt: now, talk: '' }],
            answers: {
              doctor: { findings: ['failed', 'warning', 'fine'].map(verdict => ({ verdict,
                area: 'kafka', finding: 'f', repair: 'r' })) },
              groups: { groups: [{ ...record, lastFailedAt: now, nearestDeadline: now + 9000,
                apps: [1, 2, 3, 4].map(appAppleId => ({ appAppleId, count: 1 })) }] },
              'dead-letters': { deadLetters: [record] }, 'dead-letter': { deadLetters: [record] },
              token: way,
              purchase: { ...way, lineItemId: 'a', outcome: 'reported', reason: 'x', revision: 1,
                requestIdentifier: 'r', waitsFor: 'a token', waitsUntil: now, waitingSince: now },
              account: { closes: false, accounts: [{ ...account, of: 'tokens', accepted: 10 },
                { ...account, of: 'sales', received: 10, notOwed: 1 },
                { ...app, of: 'month', month: '2027-01', active: 3, reported: 1, withSales: 1,
                  owed: 1, owesNone: 1, refused: 1, lateReports: 1, deadline: now }] },
              audit: { lines: [{ at: now, action: 'replay', by: 'mia', why: 'w', runId: 'r',
                count: 2 }] },
              plan: { matched: 3, go: 1, skipped: 1, beyondMax: 1, secondsAtRate: 60,
                filter: 'stage decode', targets: [{ topic: 't', count: 1 }],
                skipReasons: [{ why: 'replayed', count: 1, sentence: 's',
                  examples: ['decode/0/2'] }] },
              lane: { isWritten: false, lanes: [lane] } } };
        };

        """#
}
