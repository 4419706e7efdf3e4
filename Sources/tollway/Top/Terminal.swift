internal import Glibc

/// The whole screen of a terminal, borrowed: what stood there before comes back with ``leave()``.
///
/// Keys are read one by one and not shown; Ctrl-C stays a signal.
struct Terminal {
    private var before = termios()
    private let isInput: Bool

    struct Size: Equatable {
        var width: Int
        var height: Int
    }

    /// Takes the screen.
    init() {
        // A suspended screen would be left in the shell's way.
        signal(SIGTSTP, SIG_IGN)
        isInput = isatty(STDIN_FILENO) == 1
        if isInput, unsafe tcgetattr(STDIN_FILENO, &before) == 0 {
            var raw = before
            raw.c_lflag &= ~tcflag_t(ECHO | ICANON)
            unsafe tcsetattr(STDIN_FILENO, TCSANOW, &raw)
        }
        // The other screen, the cursor hidden.
        Console.write("\u{1b}[?1049h\u{1b}[?25l")
    }

    mutating func leave() {
        Console.write("\u{1b}[?25h\u{1b}[?1049l")
        if isInput {
            unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &before)
        }
    }

    /// Readable when a key was pressed; -1 where there are none.
    var keyDescriptor: Int32 { isInput ? STDIN_FILENO : -1 }

    /// The keys pressed; nil where there will be no more.
    func keys() -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe read(STDIN_FILENO, &bytes, bytes.count)
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    static var size: Size {
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0,
            size.ws_row > 0
        else {
            return Size(width: 80, height: 24)
        }
        return Size(width: Int(size.ws_col), height: Int(size.ws_row))
    }

    /// Draws over what is there, without a flicker.
    func draw(_ lines: [String]) {
        var text = "\u{1b}[H"
        for (index, line) in lines.enumerated() {
            text += line + "\u{1b}[K" + (index == lines.count - 1 ? "" : "\r\n")
        }
        Console.write(text + "\u{1b}[J")
    }
}
