/// `tollway completion`: what a shell needs to complete verbs and options, made of the verbs table.
enum CompletionCommand {
    static let verb = Verb(
        words: ["completion"],
        summary: "a script by which a shell completes tollway's verbs and options",
        operands: "bash|zsh|fish",
        operandCountMax: 1,
        details: """
            bash:  tollway completion bash >/etc/bash_completion.d/tollway
            zsh:   tollway completion zsh >"${fpath[1]}/_tollway"
            fish:  tollway completion fish >~/.config/fish/completions/tollway.fish
            """,
        run: run
    )

    private static let common = ["-o", "--help"]

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let shell = try invocation.onlyOperand(named: "the shell")
        switch shell {
        case "bash": Console.write(bash(TollwayCommand.verbs))
        case "zsh": Console.write(zsh(TollwayCommand.verbs))
        case "fish": Console.write(fish(TollwayCommand.verbs))
        default:
            throw .usage("bad_value", "the shell is \"\(shell)\": it must be bash, zsh or fish")
        }
        return .ok
    }

    // MARK: - Shells

    /// One line of a `case` for each verb: its words, and what may follow them.
    private static func cases(_ verbs: [Verb]) -> String {
        let groups = Set(verbs.filter { $0.words.count > 1 }.map { $0.words[0] })
        let below = groups.sorted().map { word in
            let members = verbs.filter { $0.words.count > 1 && $0.words[0] == word }
            return (word, members.map { $0.words[1] })
        }
        let options = verbs.map { ($0.name, $0.options.map(\.name) + common) }
        return (below + options).map { name, next in
            "        \"\(name)\") next=\"\(next.joined(separator: " "))\" ;;\n"
        }
        .joined()
    }

    private static func firstWords(_ verbs: [Verb]) -> [String] {
        var words: [String] = []
        for verb in verbs where !words.contains(verb.words[0]) {
            words.append(verb.words[0])
        }
        return words
    }

    private static func bash(_ verbs: [Verb]) -> String {
        """
        # Made by: tollway completion bash
        _tollway() {
            local word before="" words="" next="\(firstWords(verbs).joined(separator: " ")) --help --version"
            local current="${COMP_WORDS[COMP_CWORD]}"
            COMPREPLY=()
            for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
                [[ $word == -* || $before == -o ]] && { before=$word; continue; }
                before=$word
                words="${words:+$words }$word"
                case $words in
        \(cases(verbs))        esac
            done
            if [[ ${COMP_WORDS[COMP_CWORD-1]} == -o ]]; then
                next="table json ndjson"
            fi
            # Options only where an option was begun: a file's name may stand there as well.
            if [[ $next == -* && $current != -* ]]; then
                compopt -o default
                return
            fi
            mapfile -t COMPREPLY < <(compgen -W "$next" -- "$current")
        }
        complete -F _tollway tollway

        """
    }

    /// zsh runs bash's functions where it is asked to.
    private static func zsh(_ verbs: [Verb]) -> String {
        """
        #compdef tollway
        # Made by: tollway completion zsh
        _tollway() {
            local word before="" words_so_far="" next="\(firstWords(verbs).joined(separator: " ")) --help --version"
            for word in "${(@)words[2,CURRENT-1]}"; do
                [[ $word == -* || $before == -o ]] && { before=$word; continue; }
                before=$word
                words_so_far="${words_so_far:+$words_so_far }$word"
                case $words_so_far in
        \(cases(verbs))        esac
            done
            if [[ ${words[CURRENT-1]} == -o ]]; then
                next="table json ndjson"
            fi
            if [[ $next == -* && $PREFIX != -* ]]; then
                _files
                return
            fi
            compadd -- ${=next}
        }
        _tollway "$@"

        """
    }

    private static func fish(_ verbs: [Verb]) -> String {
        func quoted(_ text: String) -> String {
            "'" + text.map { "\\'".contains($0) ? "\\\($0)" : "\($0)" }.joined() + "'"
        }
        var lines = [
            "# Made by: tollway completion fish",
            "function __tollway_words; string match -v -- '-*' (commandline -opc)[2..]; end",
            "function __tollway_at; test (string join ' ' (__tollway_words)) = \"$argv\"; end",
            "function __tollway_in; string match -q -- \"$argv*\" (string join ' ' (__tollway_words)); end",
            "complete -c tollway -f -n __fish_use_subcommand -a "
                + quoted(firstWords(verbs).joined(separator: " ")),
            "complete -c tollway -s o -x -a 'table json ndjson' -d 'how data is written'",
        ]
        for verb in verbs {
            if verb.words.count > 1 {
                lines.append(
                    "complete -c tollway -f -n '__tollway_at \(verb.words[0])' -a \(verb.words[1])"
                        + " -d \(quoted(verb.summary))"
                )
            }
            lines += verb.options.map { option in
                "complete -c tollway -n '__tollway_in \(verb.name)' -l \(option.name.dropFirst(2))"
                    + (option.value == nil ? "" : " -r") + " -d \(quoted(option.summary))"
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
