#!/usr/bin/env python3
"""An HTTP/2 server over TLS that does what a test wants of it; the standard library alone.

    scripted_http2.py CERTIFICATE KEY SCENARIO [COUNT]

The scenario says what the connections do, mostly the first; see SCENARIOS.  The path of a request
says what its answer is; see Connection.begin_request and Connection.answer.  Every answer names
its connection, counted from 1, in x-connection.

Prints its port, then a line an event: a word, the connection, the stream (0: none), and what more
there is to say of it.

    connection 1 0 h2               handshake done, with what ALPN has chosen
    handshake 1 0                   handshake failed
    acknowledged 1 0                the client has taken the SETTINGS
    stream 1 3 GET /path LENGTH     a request begins; content-length, or - without one
    body 1 3 COUNT                  a request is whole
    answer 1 3 STATUS               an answer is about to be whole
    refusal 1 3 CODE                RST_STREAM is about to be sent
    reset 1 3 CODE                  RST_STREAM has come
    goaway 1 0 CODE                 GOAWAY has come
    ping 1 0                        a PING was acknowledged
    ended 1 0                       the server sends no more here, and has said so to TCP
    closed 1 0                      nothing more comes from the client
    fault 1 3 WORDS                 the client does what HTTP/2 forbids, or this script is wrong
"""
import os
import socket
import ssl
import struct
import sys
import threading

from hpack import TABLE_BYTE_COUNT, Fault, HeaderReader, header_block

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9)
ACK = END_STREAM = 1
END_HEADERS, PADDED, PRIORITY = 4, 8, 32
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM = 0, 2, 7
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 3, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTE_COUNT = 9
WINDOW, FRAME_BYTE_COUNT_MAX = 65535, 16384
STREAM_ID_MAX = 2**31 - 1
# A window is opened again when no more of it is left: a client that waits for it waits.
WINDOW_LOW = 1024
# Whoever has started it may be gone.
LIFETIME_SECONDS = 300
FORBIDDEN = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

log_lock = threading.Lock()


def log(*words):
    with log_lock:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


# HTTP.

def pattern(byte_count):
    return (bytes(range(251)) * (byte_count // 251 + 1))[:byte_count]


def content(path, headers, body):
    """Status, headers and body of the answer to a request."""
    words = path.split("?")[0].split("/")
    if words[1] == "bytes":
        return 200, [("content-length", words[2])], pattern(int(words[2]))
    if words[1] == "status":
        return int(words[2]), [], b""
    if words[1] == "headers":
        # Values that were taken for something else.
        return 200, [("via", "HTTP/1.1 proxy"), ("x-blank", "blank ")], "".join(f"{name}: {value}\n" for name, value in headers).encode("latin-1")
    return 200, [], bytes(body)


def frame(kind, flags, stream, payload=b""):
    size = len(payload).to_bytes(3, "big")
    return size + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def number(value):
    return value.to_bytes(4, "big")


class Stream:
    def __init__(self, id, headers, window):
        self.id = id
        self.headers = headers
        self.window = window  # what may be sent
        self.room = WINDOW  # what may come
        self.body = bytearray()
        self.is_whole = False
        self.status = 0
        self.unsent = b""
        self.trailers = []

    def header(self, name, default=None):
        return dict(self.headers).get(name, default)

    @property
    def path(self):
        return self.header(":path")


class Connection:
    """Answers every request as soon as it is whole."""

    settings = {}
    refused_paths = set()  # of /refuse-once, whatever the connection

    def __init__(self, tls, number, count):
        self.tls = tls
        self.number = number
        self.count = count
        self.incoming = tls.makefile("rb")
        self.out = bytearray()
        self.reader = HeaderReader(self.settings.get(HEADER_TABLE_SIZE, TABLE_BYTE_COUNT))
        self.streams = {}  # whose answer is not whole yet
        self.last_id = 0
        self.window = self.room = self.stream_window = WINDOW
        self.is_acknowledged = False
        self.has_ended = False

    def log(self, event, stream, *words):
        log(event, self.number, stream, *words)

    # What scenarios change.

    def begin(self):
        payload = b"".join(struct.pack(">HI", *setting) for setting in self.settings.items())
        self.out += frame(SETTINGS, 0, 0, payload)

    def begin_request(self, stream):
        """Its headers have come."""
        if stream.path == "/refuse":
            self.reset(stream, REFUSED_STREAM)
        elif stream.path.startswith("/refuse-once") and stream.path not in self.refused_paths:
            self.refused_paths.add(stream.path)
            self.reset(stream, REFUSED_STREAM)
        elif stream.path == "/early":
            # RFC 9113, 8.1: a whole answer before the request is whole, which is stopped then.
            self.log("answer", stream.id, 413)
            self.send_headers(stream, [(":status", "413"), self.mark()], END_STREAM)
            self.reset(stream, NO_ERROR)

    def end_request(self, stream):
        """All of it has come."""
        self.answer(stream)

    def end_ping(self):
        pass

    # What they are made of.

    def mark(self):
        return "x-connection", str(self.number)

    def reset(self, stream, code):
        self.log("refusal", stream.id, code)
        self.out += frame(RST_STREAM, 0, stream.id, number(code))
        del self.streams[stream.id]

    def go_away(self, last_id):
        self.out += frame(GOAWAY, 0, 0, number(last_id) + number(NO_ERROR))

    def send_headers(self, stream, headers, flags=0, is_split=False):
        block = header_block(headers)
        first = len(block) // 2 if is_split else FRAME_BYTE_COUNT_MAX
        pieces = [block[:first]]
        pieces += [block[at:at + FRAME_BYTE_COUNT_MAX]
                   for at in range(first, len(block), FRAME_BYTE_COUNT_MAX)]
        for index, piece in enumerate(pieces):
            kind = CONTINUATION if index else HEADERS
            ends = END_HEADERS if index == len(pieces) - 1 else 0
            self.out += frame(kind, ends | (0 if index else flags), stream.id, piece)

    def answer(self, stream):
        path = stream.path
        if path.startswith("/silent"):
            return
        if path.startswith("/reset/"):
            self.reset(stream, int(path.split("/")[2]))
            return
        status, headers, body = content(path, stream.headers, stream.body)
        headers = [(":status", str(status)), self.mark()] + headers
        stream.status = status
        if stream.header(":method") == "HEAD":
            body = b""
        is_split = False
        if path == "/informational":
            self.send_headers(stream, [(":status", "100")])
            self.send_headers(stream, [(":status", "103"), ("link", "</a>"), ("x-answer", "early")])
            # A kind of frame that nobody knows, and padding.
            self.out += frame(0xFA, 0x55, stream.id, b"unknown")
            self.out += frame(SETTINGS, 0, 0, struct.pack(">HI", 0x1A1A, 1))
            headers += [("x-answer", "final"), ("x-long", "y" * 1000)]
            is_split = True
            stream.trailers = [("x-answer", "trailer"), ("x-checksum", "1")]
        elif path == "/begun":
            self.send_headers(stream, headers)
            self.out += frame(DATA, 0, stream.id, b"begun")
            self.reset(stream, REFUSED_STREAM)
            return
        elif path == "/no-status":
            headers = headers[1:]
        elif path == "/wrong-length":
            headers += [("content-length", str(len(body) + 10))]
        elif path == "/data-first":
            headers = []
        elif path == "/bad-index":
            self.out += frame(HEADERS, END_HEADERS, stream.id, b"\xff\xff\xff\x7f")
            headers = []
        is_empty = not body and not stream.trailers
        if headers:
            if is_empty:
                self.finish(stream)
            self.send_headers(stream, headers, END_STREAM if is_empty else 0, is_split)
        if is_empty:
            return
        if path == "/informational":
            payload = b"\x07" + body + bytes(7)
            self.window -= len(payload)
            self.out += frame(DATA, PADDED, stream.id, payload)
        else:
            stream.unsent = body
        self.send_bodies()

    def finish(self, stream):
        self.log("answer", stream.id, stream.status)
        del self.streams[stream.id]

    def send_bodies(self):
        """As much as the client has room for."""
        for stream in [one for one in self.streams.values() if one.status]:
            while stream.unsent:
                count = min(FRAME_BYTE_COUNT_MAX, self.window, stream.window, len(stream.unsent))
                if count <= 0:
                    break
                self.window -= count
                stream.window -= count
                piece, stream.unsent = stream.unsent[:count], stream.unsent[count:]
                is_last = not stream.unsent and not stream.trailers
                if is_last:
                    self.finish(stream)
                self.out += frame(DATA, END_STREAM if is_last else 0, stream.id, piece)
            if stream.trailers and not stream.unsent:
                self.finish(stream)
                self.send_headers(stream, stream.trailers, END_STREAM)

    def flush(self):
        out, self.out = self.out, bytearray()
        if out:
            self.tls.sendall(out)

    def end(self, is_reset=False):
        """Ends the connection: after what was sent, or at once and with a reset."""
        self.has_ended = True
        if is_reset:
            self.out.clear()
            self.log("ended", 0)
            self.abort()
            return
        self.flush()
        # Only one way: what comes and is not read would make it a reset, which overtakes.
        self.tls.shutdown(socket.SHUT_WR)
        self.log("ended", 0)
        while self.tls.recv(WINDOW):
            pass

    def abort(self):
        self.tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.incoming.close()
        self.tls.close()

    # What comes.

    def serve(self):
        self.begin()
        self.flush()
        preface = self.incoming.read(len(PREFACE))
        if preface and preface != PREFACE:
            raise Fault("no preface")
        while len(head := self.incoming.read(HEAD_BYTE_COUNT)) == HEAD_BYTE_COUNT:
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            if size > FRAME_BYTE_COUNT_MAX:
                raise Fault("a frame is too large")
            payload = self.incoming.read(size)
            if len(payload) < size:
                return
            self.take(kind, flags, int.from_bytes(head[5:], "big") & STREAM_ID_MAX, payload)
            self.flush()
            if self.has_ended:
                return

    def take(self, kind, flags, id, payload):
        stream = self.streams.get(id)
        if kind == HEADERS:
            self.take_headers(flags, id, payload)
        elif kind == DATA:
            self.take_data(flags, id, payload)
        elif kind == SETTINGS and flags & ACK:
            self.is_acknowledged = True
            self.log("acknowledged", 0)
        elif kind == SETTINGS:
            self.take_settings(payload)
        elif kind == WINDOW_UPDATE:
            count = int.from_bytes(payload, "big")
            if id == 0:
                self.window += count
            elif stream:
                stream.window += count
            self.send_bodies()
        elif kind == PING and flags & ACK:
            self.log("ping", 0)
            self.end_ping()
        elif kind == PING:
            self.out += frame(PING, ACK, 0, payload)
        elif kind == RST_STREAM:
            if id > self.last_id:
                raise Fault("RST_STREAM on a stream that never was")
            self.log("reset", id, int.from_bytes(payload, "big"))
            self.streams.pop(id, None)
        elif kind == GOAWAY:
            self.log("goaway", 0, int.from_bytes(payload[4:8], "big"))

    def take_settings(self, payload):
        for at in range(0, len(payload), 6):
            name, value = struct.unpack(">HI", payload[at:at + 6])
            if name == INITIAL_WINDOW_SIZE:
                for stream in self.streams.values():
                    stream.window += value - self.stream_window
                self.stream_window = value
        self.out += frame(SETTINGS, ACK, 0)
        self.send_bodies()

    def take_headers(self, flags, id, payload):
        if id % 2 == 0 or id <= self.last_id:
            raise Fault(f"stream {id} after {self.last_id}")
        if flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        if flags & PRIORITY:
            payload = payload[5:]
        ends = flags
        while not ends & END_HEADERS:
            head = self.incoming.read(HEAD_BYTE_COUNT)
            if len(head) < HEAD_BYTE_COUNT:
                return
            ends = head[4]
            if head[3] != CONTINUATION or int.from_bytes(head[5:], "big") != id:
                raise Fault("something between the frames of a header block")
            payload += self.incoming.read(int.from_bytes(head[:3], "big"))
        headers = self.reader.read(payload)
        if self.is_acknowledged and self.reader.size > self.reader.size_max:
            raise Fault("the header table is larger than allowed")
        self.last_id = id
        stream = self.streams[id] = Stream(id, headers, self.stream_window)
        self.check(headers)
        self.log("stream", id, stream.header(":method"), stream.path,
                 stream.header("content-length", "-"))
        self.begin_request(stream)
        if flags & END_STREAM:
            self.take_end(stream)

    def check(self, headers):
        names = [name for name, _ in headers]
        pseudo = [name for name in names if name.startswith(":")]
        if sorted(pseudo) != [":authority", ":method", ":path", ":scheme"]:
            raise Fault(f"a request with {pseudo}")
        if names[:len(pseudo)] != pseudo:
            raise Fault("a pseudo-header after a header")
        for name in names:
            if name != name.lower() or name in FORBIDDEN:
                raise Fault(f"a header {name}")

    def take_data(self, flags, id, payload):
        if id == 0 or id > self.last_id:
            raise Fault("DATA on a stream that never was")
        stream = self.streams.get(id)
        self.room -= len(payload)
        if self.room < 0:
            raise Fault("DATA beyond the connection's window")
        if self.room < WINDOW_LOW:
            self.out += frame(WINDOW_UPDATE, 0, 0, number(WINDOW - self.room))
            self.room = WINDOW
        if not stream:
            return
        if stream.is_whole:
            raise Fault("DATA after the end of a request")
        stream.room -= len(payload)
        if stream.room < 0:
            raise Fault("DATA beyond the stream's window")
        if flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        stream.body += payload
        if flags & END_STREAM:
            self.take_end(stream)
        elif stream.room < WINDOW_LOW:
            self.out += frame(WINDOW_UPDATE, 0, id, number(WINDOW - stream.room))
            stream.room = WINDOW

    def take_end(self, stream):
        if stream.id not in self.streams:
            return
        stream.is_whole = True
        self.log("body", stream.id, len(stream.body))
        if int(stream.header("content-length", len(stream.body))) != len(stream.body):
            raise Fault("a body that is not as long as content-length says")
        self.end_request(stream)


class SmallTable(Connection):
    """The client's HPACK may keep nothing."""

    settings = {HEADER_TABLE_SIZE: 0}


class Gathering(Connection):
    """Answers nothing until COUNT requests are whole; then the last first, and all later ones."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gathered = []

    def end_request(self, stream):
        self.gathered.append(stream)
        if len(self.gathered) == self.count:
            for one in reversed(self.gathered):
                self.answer(one)
        elif len(self.gathered) > self.count:
            self.answer(stream)


class One(Connection):
    """Allows one stream.  By the ack of a PING all has come that the client would have sent."""

    settings = {MAX_CONCURRENT_STREAMS: 1}

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.waiting = []

    def begin_request(self, stream):
        if len(self.streams) > 1:
            raise Fault("more streams than the server allows")

    def end_request(self, stream):
        self.waiting.append(stream)
        self.out += frame(PING, 0, 0, bytes(8))

    def end_ping(self):
        self.answer(self.waiting.pop(0))


class OneEach(One):
    """Goes away after each answer."""

    def end_ping(self):
        self.go_away(self.waiting[0].id)
        super().end_ping()


class Unequal(One):
    """Allows none where it is not the first."""

    settings = {MAX_CONCURRENT_STREAMS: 0}


class UnequalInTurn(Unequal):
    """The same, each when the client has taken the SETTINGS of the one before."""

    heard = [threading.Event() for _ in range(32)]

    def begin(self):
        if self.number > 2:
            self.heard[self.number - 1].wait(10)
        super().begin()

    def take(self, kind, flags, id, payload):
        super().take(kind, flags, id, payload)
        if self.is_acknowledged:
            self.heard[self.number].set()


class NoneAtFirst(Connection):
    """The first COUNT allow no stream, and the next one breaks in its handshake."""

    allowed_count = 0

    def begin(self):
        if self.number <= self.count:
            self.settings = {MAX_CONCURRENT_STREAMS: self.allowed_count}
        super().begin()


class OneAtFirst(NoneAtFirst):
    """The same, but those allow one."""

    allowed_count = 1


class Three(Connection):
    """Allows three streams."""

    settings = {MAX_CONCURRENT_STREAMS: 3}


class GoingAway(Gathering):
    """Goes away when COUNT requests are whole, and answers the first half of them."""

    def end_request(self, stream):
        self.gathered.append(stream)
        if len(self.gathered) != self.count:
            return
        processed = sorted(self.gathered, key=lambda one: one.id)[:self.count // 2]
        self.go_away(processed[-1].id)
        for one in processed:
            self.answer(one)


class GoneAway(Gathering):
    """The same, but answers none and ends."""

    def end_request(self, stream):
        self.gathered.append(stream)
        if len(self.gathered) == self.count:
            self.go_away(sorted(one.id for one in self.gathered)[self.count // 2 - 1])
            self.end()


class Leaving(Connection):
    """Says that it will go away, and has not said yet which stream is the last."""

    def end_request(self, stream):
        self.go_away(STREAM_ID_MAX)
        self.answer(stream)


class Dropping(Connection):
    """Ends instead of an answer."""

    def end_request(self, stream):
        self.end()


class Resetting(Connection):
    def end_request(self, stream):
        self.end(is_reset=True)


class Idle(Connection):
    """Ends behind its first answer."""

    def end_request(self, stream):
        self.answer(stream)
        self.end()


class Silent(Connection):
    """Takes everything and answers nothing."""

    def end_request(self, stream):
        pass


class HalfSilent(Silent):
    """Answers what has no body."""

    def end_request(self, stream):
        if not stream.body:
            self.answer(stream)


class Mute(Connection):
    """Not even SETTINGS."""

    def serve(self):
        self.incoming.read()


class Text(Connection):
    """Garbage where SETTINGS should be."""

    def serve(self):
        self.tls.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 10)
        self.incoming.read()


class Zeros(Connection):
    def serve(self):
        self.tls.sendall(bytes(1000))
        self.incoming.read()


class HTTP1(Connection):
    """HTTP/1.1, one request after the other."""

    def serve(self):
        while line := self.incoming.readline():
            method, path, _ = line.decode().split()
            headers = []
            while line := self.incoming.readline().decode().strip():
                name, value = line.split(":", 1)
                headers.append((name.lower(), value.strip()))
            length = dict(headers).get("content-length", "-")
            self.log("stream", 0, method, path, length)
            body = self.incoming.read(0 if length == "-" else int(length))
            self.log("body", 0, len(body))
            status, _, body = content(path, headers, body)
            self.log("answer", 0, status)
            self.tls.sendall(
                b"HTTP/1.1 %d Status\r\nX-Connection: %d\r\nContent-Length: %d\r\n\r\n"
                % (status, self.number, len(body)) + body)


# For each: the first connection, the further ones, and what ALPN offers.  None: no handshake.
SCENARIOS = {
    "plain": (Connection, Connection, ["h2"]),
    "small-table": (SmallTable, SmallTable, ["h2"]),
    "one-each": (OneEach, OneEach, ["h2"]),
    "one-then-none": (One, Unequal, ["h2"]),
    "one-then-none-in-turn": (One, UnequalInTurn, ["h2"]),
    "none-at-first": (NoneAtFirst, NoneAtFirst, ["h2"]),
    "one-at-first": (OneAtFirst, OneAtFirst, ["h2"]),
    "three-then-deaf": (Three, None, ["h2"]),
    "gather": (Gathering, Connection, ["h2"]),
    "one": (One, One, ["h2"]),
    "going-away": (GoingAway, Connection, ["h2"]),
    "gone-away": (GoneAway, Connection, ["h2"]),
    "leaving": (Leaving, Connection, ["h2"]),
    "drop": (Dropping, Connection, ["h2"]),
    "reset": (Resetting, Connection, ["h2"]),
    "idle": (Idle, Connection, ["h2"]),
    "silent": (Silent, Connection, ["h2"]),
    "half-silent": (HalfSilent, Connection, ["h2"]),
    "mute": (Mute, Connection, ["h2"]),
    "deaf": (None, Connection, ["h2"]),
    "text": (Text, Text, ["h2"]),
    "zeros": (Zeros, Zeros, ["h2"]),
    "http1": (HTTP1, HTTP1, ["http/1.1"]),
    "no-alpn": (HTTP1, HTTP1, []),
}


def serve(kind, accepted, connection_number, count, context):
    # Small frames one after the other: without this the second waits for the first's ack.
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        if issubclass(kind, NoneAtFirst) and connection_number == count + 1:
            accepted.shutdown(socket.SHUT_RDWR)
        tls = context.wrap_socket(accepted, server_side=True)
    except OSError:
        log("handshake", connection_number, 0)
        return
    log("connection", connection_number, 0, tls.selected_alpn_protocol() or "none")
    connection = kind(tls, connection_number, count)
    try:
        connection.serve()
    except OSError:
        pass  # the client has reset it, or left without TLS's farewell
    except Exception as error:
        log("fault", connection_number, connection.last_id, repr(error))
    log("closed", connection_number, 0)
    if tls.fileno() >= 0:
        connection.abort()


def main():
    certificate, key, scenario = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    first, further, protocols = SCENARIOS[scenario]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if protocols:
        context.set_alpn_protocols(protocols)
    end = threading.Timer(LIFETIME_SECONDS, os._exit, [1])
    end.daemon = True
    end.start()
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    kept = []
    connection_number = 0
    while True:
        accepted, _ = listener.accept()
        connection_number += 1
        kind = first if connection_number == 1 else further
        if kind is None:
            kept.append(accepted)
            continue
        arguments = (kind, accepted, connection_number, count, context)
        threading.Thread(target=serve, args=arguments, daemon=True).start()


if __name__ == "__main__":
    main()
