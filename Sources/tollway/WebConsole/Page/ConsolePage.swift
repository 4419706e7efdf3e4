/// The one page: a frame that the script fills.
enum ConsolePage {
    static let html = #"""
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta name="color-scheme" content="light dark">
        <title>Tollway</title>
        <link rel="icon" href="/icon.svg" type="image/svg+xml">
        <link rel="stylesheet" href="/console.css">
        <script src="/console.js" defer></script>
        </head>
        <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header>
        <p class="brand">Tollway</p>
        <nav id="nav" aria-label="Views"></nav>
        <p id="state" role="status" aria-live="polite">asking…</p>
        </header>
        <div id="banner" role="alert"></div>
        <main id="main" tabindex="-1"><p>Loading…</p></main>
        <footer id="foot"></footer>
        <noscript><p>This page needs its own script; nothing comes from elsewhere.</p></noscript>
        </body>
        </html>

        """#

    static let icon = #"""
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
        <rect width="32" height="32" rx="7" fill="#0b6e63"/>
        <path d="M6 22h20M9 22V11h5v11M18 13l9-4" fill="none" stroke="#fff" stroke-width="3"
        stroke-linecap="round" stroke-linejoin="round"/>
        </svg>

        """#
}
