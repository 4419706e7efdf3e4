#!/usr/bin/env python3
"""An HTTP/2 server over TLS: a request that has a body is answered by no first connection.

    silent_http2.py CERTIFICATE KEY

Prints its port, and for each request the number of the connection that it came on. A first
connection stays open, takes all that comes and acknowledges it, and answers what has no body;
each further one answers everything, with 204.
"""
import socket
import ssl
import sys
import threading

HEADERS, SETTINGS = 1, 4
ACK, END_STREAM, END_HEADERS = 1, 1, 4
PREFACE_BYTE_COUNT, HEAD_BYTE_COUNT = 24, 9
STATUS_204 = b"\x89"  # HPACK's static table has it


def frame(kind, flags, stream, payload=b""):
    size = len(payload).to_bytes(3, "big")
    return size + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def serve(accepted, number, context):
    with context.wrap_socket(accepted, server_side=True) as connection:
        incoming = connection.makefile("rb")
        incoming.read(PREFACE_BYTE_COUNT)
        connection.sendall(frame(SETTINGS, 0, 0))
        while len(head := incoming.read(HEAD_BYTE_COUNT)) == HEAD_BYTE_COUNT:
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            incoming.read(int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACK:
                connection.sendall(frame(SETTINGS, ACK, 0))
            if kind == HEADERS:
                print(number, flush=True)
                if number > 1 or flags & END_STREAM:
                    answer = frame(HEADERS, END_STREAM | END_HEADERS, stream, STATUS_204)
                    connection.sendall(answer)


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.set_alpn_protocols(["h2"])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    number = 0
    while True:
        accepted, _ = listener.accept()
        number += 1
        arguments = (accepted, number, context)
        threading.Thread(target=serve, args=arguments, daemon=True).start()


main()
