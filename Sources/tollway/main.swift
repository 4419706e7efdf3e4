internal import Crypto
internal import Glibc
internal import Telemetry

OpenFiles.keepStandardOnes()
// A reader that goes away (`tollway … | head`) ends the writing, not the process with a signal.
_ = signal(SIGPIPE, SIG_IGN)
// doctor reads keys, and sim makes some.
ProcessMemory.refuseDumps()
exit(TollwayCommand.run(Array(CommandLine.arguments.dropFirst())).rawValue)
