/// What a browser loads: one page for every view, its style and its script, all within the program.
enum ConsoleAssets {
    struct Asset {
        var type: String
        var bytes: [UInt8]
    }

    /// Nothing from elsewhere, no code in the page itself, nobody else's frame around it; and no
    /// text that becomes markup, in browsers that know trusted types.
    static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src"
        + " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        + " require-trusted-types-for 'script'; trusted-types 'none'"

    static let headers: [(String, String)] = [
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ]

    /// First parts of the paths of views; each is the same page.
    static let views: Set<String> = [
        "", "pipeline", "apple", "dead-letters", "token", "purchase", "account", "audit",
    ]

    static func asset(_ path: String) -> Asset? {
        switch path {
        case "/console.css":
            Asset(type: "text/css; charset=utf-8", bytes: Array(ConsoleStyle.text.utf8))
        case "/console.js":
            Asset(type: "text/javascript; charset=utf-8", bytes: Array(script.utf8))
        case "/icon.svg":
            Asset(type: "image/svg+xml", bytes: Array(ConsolePage.icon.utf8))
        case _
        where views.contains(
            String(path.dropFirst().prefix { $0 != "/" })
        ):
            Asset(type: "text/html; charset=utf-8", bytes: Array(ConsolePage.html.utf8))
        default: nil
        }
    }

    private static let script =
        ConsoleScript.core + ConsoleScript.pipeline + ConsoleScript.apple
        + ConsoleScript.deadLetters + ConsoleScript.acts + ConsoleScript.token
        + ConsoleScript.account + ConsoleScript.start
}
