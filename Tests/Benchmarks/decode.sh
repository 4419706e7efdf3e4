#!/bin/bash
# Decoding one token: our reader and one on simdjson (Debian: libsimdjson-dev, g++), side by side, on input
# that is mixed as that of tollway-bench.  Beside it, for the share that reading has in a record of decode,
# whole records to whole records.  A row of tollway-bench would compare Kafka with Kafka: of 3 us that
# a record costs there, a token is read in less than a tenth.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc -O3 -fPIC -I Sources/CText/include -c Sources/CText/ctext.c -o "$work/ctext.o"
g++ -O3 -std=c++17 -Wall -Wextra -shared -fPIC -I Sources/CText/include \
    Tests/Benchmarks/simdjson_reader.cpp "$work/ctext.o" \
    -lsimdjson -o "$work/libsimdjson_reader.so"
swift build -c release --product decode-benchmark >&2
.build/release/decode-benchmark "$work/libsimdjson_reader.so"
.build/release/decode-benchmark records 2000000
