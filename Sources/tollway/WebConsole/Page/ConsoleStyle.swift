/// How the page looks: by day and by night, from 400 pixels up.
enum ConsoleStyle {
    static let text = #"""
        :root {
          color-scheme: light dark;
          --back: #f6f7f8; --card: #fff; --text: #1a2024; --dim: #59646d; --line: #d5dbe0;
          --accent: #0b6e63; --accent-text: #fff; --bad: #b3261e; --bad-back: #fdecea;
          --warn: #8a5300; --warn-back: #fff4e0; --good: #1b6e3c; --code: #eef1f3;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --back: #12171a; --card: #1b2226; --text: #e6ebee; --dim: #9dabb4; --line: #35414a;
            --accent: #4fc3b3; --accent-text: #06211d; --bad: #ff8a80; --bad-back: #3a1d1b;
            --warn: #ffc46b; --warn-back: #35290f; --good: #7fd69c; --code: #263037;
          }
        }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--back); color: var(--text); line-height: 1.45;
          font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
        a { color: var(--accent); }
        :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
        main:focus { outline: none; }
        .skip { position: absolute; left: -999px; }
        .skip:focus { left: 8px; top: 8px; background: var(--card); padding: 8px; z-index: 9; }
        header { display: flex; flex-wrap: wrap; gap: 4px 20px; align-items: center;
          padding: 8px 20px; background: var(--card); border-bottom: 1px solid var(--line);
          position: sticky; top: 0; z-index: 5; }
        .brand { font-weight: 700; margin: 0; color: var(--accent); }
        nav { display: flex; flex-wrap: wrap; gap: 2px; }
        nav a { padding: 6px 12px; border-radius: 6px; text-decoration: none; color: var(--text); }
        nav a:hover { background: var(--code); }
        nav a[aria-current=page] { background: var(--accent); color: var(--accent-text); }
        nav .count { font-size: 12px; background: var(--bad); color: var(--card);
          border-radius: 9px; padding: 0 6px; margin-left: 6px; }
        #state { margin: 0 0 0 auto; color: var(--dim); font-size: 13px; }
        #state.stale { color: var(--bad); font-weight: 600; }
        #banner:empty { display: none; }
        #banner { background: var(--bad-back); color: var(--bad); padding: 10px 20px;
          border-bottom: 1px solid var(--bad); font-weight: 600; overflow-wrap: anywhere; }
        main { padding: 16px 20px 32px; max-width: 1280px; margin: 0 auto; }
        footer { color: var(--dim); font-size: 12px; padding: 0 20px 20px; text-align: center;
          overflow-wrap: anywhere; }
        h1 { font-size: 22px; margin: 4px 0 14px; overflow-wrap: anywhere; }
        h2 { font-size: 16px; margin: 26px 0 8px; }
        h3 { font-size: 15px; margin: 0; }
        p { margin: 6px 0; }
        .dim { color: var(--dim); }
        .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
          padding: 12px 14px; }
        .advice { list-style: none; margin: 0 0 16px; padding: 0; display: grid; gap: 8px; }
        .advice li { border-left: 5px solid var(--line); background: var(--card); padding: 8px 12px;
          border-radius: 6px; overflow-wrap: anywhere; }
        .advice .error { border-color: var(--bad); background: var(--bad-back); }
        .advice .error b { color: var(--bad); }
        .advice .warning { border-color: var(--warn); background: var(--warn-back); }
        .advice .warning b { color: var(--warn); }
        .advice .good { border-color: var(--good); }
        .flow { display: flex; align-items: stretch; gap: 0; margin: 0; padding: 0; }
        .flow > .column { flex: 1 1 0; min-width: 0; display: flex; flex-direction: column;
          justify-content: center; gap: 12px; }
        .flow > .arrow { flex: 0 0 28px; display: grid; place-items: center; color: var(--dim);
          font-size: 20px; }
        .stage.error { border: 2px solid var(--bad); }
        .stage.warning { border: 2px solid var(--warn); }
        .stage h3 { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 2px 8px; }
        .stage > p { font-size: 13px; overflow-wrap: anywhere; }
        p.acts { margin-top: 10px; }
        progress { width: 120px; vertical-align: middle; accent-color: var(--accent); }
        .topic { border-top: 1px solid var(--line); margin-top: 8px; padding-top: 6px;
          font-size: 13px; }
        .topic .name { overflow-wrap: anywhere; font-weight: 600; }
        .facts { display: grid; grid-template-columns: auto 1fr; gap: 1px 10px; margin: 4px 0 0;
          font-size: 13px; }
        .facts dt { color: var(--dim); }
        .facts dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
        .bad { color: var(--bad); font-weight: 600; }
        .warn { color: var(--warn); font-weight: 600; }
        .ok { color: var(--good); font-weight: 600; }
        .pill { font-size: 12px; border-radius: 9px; padding: 1px 8px; background: var(--code);
          white-space: nowrap; font-weight: 600; }
        .pill.bad { background: var(--bad-back); }
        .pill.warn { background: var(--warn-back); }
        .cards { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill,
          minmax(min(330px, 100%), 1fr)); }
        meter { width: 100%; height: 12px; }
        .scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line);
          border-radius: 10px; }
        table { border-collapse: collapse; width: 100%; font-size: 14px; }
        th, td { text-align: left; padding: 6px 12px; border-bottom: 1px solid var(--line);
          vertical-align: top; }
        tr:last-child > td { border-bottom: 0; }
        th { color: var(--dim); font-weight: 600; font-size: 13px; white-space: nowrap; }
        td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
        td { overflow-wrap: break-word; }
        td .mono { overflow-wrap: anywhere; }
        details { margin: 12px 0; }
        summary { cursor: pointer; }
        code, pre, .mono { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 13px; }
        pre { background: var(--code); padding: 10px; border-radius: 8px; white-space: pre-wrap;
          overflow-wrap: anywhere; margin: 6px 0; max-height: 480px; overflow-y: auto; }
        form { display: flex; flex-wrap: wrap; gap: 10px; align-items: end; margin: 8px 0; }
        label { display: grid; gap: 2px; font-size: 13px; color: var(--dim); }
        label.wide { flex: 1 1 320px; }
        label.check { display: flex; gap: 6px; align-items: center; }
        input, select { font: inherit; color: var(--text); background: var(--back); padding: 6px 8px;
          border: 1px solid var(--line); border-radius: 6px; width: 100%; min-width: 0; }
        input[type=checkbox] { width: auto; }
        button { font: inherit; padding: 7px 14px; border-radius: 6px; cursor: pointer;
          border: 1px solid var(--accent); background: transparent; color: var(--accent); }
        button.main { background: var(--accent); color: var(--accent-text); }
        button.danger { border-color: var(--bad); color: var(--bad); }
        button:disabled { opacity: .5; cursor: default; }
        .line { list-style: none; margin: 0; padding: 0 0 0 18px; border-left: 3px solid var(--line); }
        .line li { position: relative; padding: 0 0 14px; overflow-wrap: anywhere; }
        .line li::before { content: ""; position: absolute; left: -25px; top: 6px; width: 10px;
          height: 10px; border-radius: 50%; background: var(--accent); }
        .line li.apple::before { background: var(--warn); }
        .line li.dead-letter::before { background: var(--bad); }
        .crumbs { font-size: 13px; margin: 0 0 6px; }
        @media (max-width: 900px) {
          .flow { flex-direction: column; }
          .flow > .arrow { flex-basis: 26px; transform: rotate(90deg); }
        }
        #plan { margin-top: 12px; }
        @media (max-width: 640px) {
          header { position: static; }
          main, header { padding-left: 12px; padding-right: 12px; }
          #state { margin-left: 0; width: 100%; }
          table.stack, .stack tbody, .stack tr, .stack td { display: block; width: 100%; }
          .stack thead { position: absolute; left: -9999px; }
          .stack tr { padding: 8px 0; border-bottom: 2px solid var(--line); }
          .stack tr:last-child { border-bottom: 0; }
          .stack td { border: 0; padding: 2px 12px; display: grid;
            grid-template-columns: 112px minmax(0, 1fr); gap: 8px; text-align: left; }
          .stack td.n { text-align: left; }
          .stack td::before { content: attr(data-label); color: var(--dim); font-size: 13px; }
        }

        """#
}
