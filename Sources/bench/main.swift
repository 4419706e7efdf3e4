internal import Glibc

exit(BenchCommand.main(Array(CommandLine.arguments.dropFirst())))
