import Foundation
import Testing

@testable import tollway

@Suite(.enabled(if: ScriptPage.isThere, ScriptPage.skipped))
struct `The console's script` {
    // MARK: - Acts

    @Test func `reads the acts once a second, however many events come`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.acts = [{ act: 1, action: 'replay', go: 2, what: 'dead letters', by: 'mia',
              why: 'w', startedAt: 0, talk: '' }];
            for (let number = 0; number < 30; number += 1) {
              await page.event({ isActing: true });
              await page.turn(2000);
            }
            const before = page.count('/api/acts');
            await page.turn(10000);
            const asked = page.count('/api/acts') - before;
            page.acts[0].exit = 0;
            await page.turn(1000);
            const last = page.count('/api/acts');
            await page.turn(1500);
            return { asked, more: page.count('/api/acts') - last };
            """
        )
        #expect(seen["asked"] as? Int == 10)
        #expect(seen["more"] as? Int == 0)
    }

    // MARK: - What is read

    @Test func `asks for an account once, however often its button is clicked`() throws {
        let seen = try ScriptPage.run(
            "/pipeline",
            """
            page.answer = () => ({ accounts: [], closes: true });
            await page.go('/account');
            const before = page.asked().length;
            page.hold();
            for (let number = 0; number < 3; number += 1) await page.click('data-act', 'account');
            const clicked = page.asked().length - before;
            await page.release();
            await page.click('data-act', 'account');
            return { clicked, then: page.asked().length - before };
            """
        )
        #expect(seen["clicked"] as? Int == 1)
        #expect(seen["then"] as? Int == 2)
    }
}
