"""HPACK, RFC 7541: the header blocks of HTTP/2."""

TABLE_BYTE_COUNT = 4096


class Fault(Exception):
    """What no client may do."""


# Appendix A.
STATIC_TABLE = [tuple(line.split("|")) for line in """\
:authority|
:method|GET
:method|POST
:path|/
:path|/index.html
:scheme|http
:scheme|https
:status|200
:status|204
:status|206
:status|304
:status|400
:status|404
:status|500
accept-charset|
accept-encoding|gzip, deflate
accept-language|
accept-ranges|
accept|
access-control-allow-origin|
age|
allow|
authorization|
cache-control|
content-disposition|
content-encoding|
content-language|
content-length|
content-location|
content-range|
content-type|
cookie|
date|
etag|
expect|
expires|
from|
host|
if-match|
if-modified-since|
if-none-match|
if-range|
if-unmodified-since|
last-modified|
link|
location|
max-forwards|
proxy-authenticate|
proxy-authorization|
range|
referer|
refresh|
retry-after|
server|
set-cookie|
strict-transport-security|
transfer-encoding|
user-agent|
vary|
via|
www-authenticate|""".split("\n")]

# Appendix B, whose code is canonical: the symbols of each length, in their order, say it all.
HUFFMAN_LENGTHS = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b"!\"()?",
    11: b"'+|",
    12: b"#>",
    13: b"\0$@[]~",
    14: b"^}",
    15: b"<`{",
    19: [92, 195, 208],
    20: [128, 130, 131, 162, 184, 194, 224, 226],
    21: [153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230],
    22: [129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186,
         187, 189, 190, 196, 198, 228, 232, 233],
    23: [1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166,
         168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239],
    24: [9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237],
    25: [199, 207, 234, 235],
    26: [192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255],
    27: [203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253,
         254],
    28: [2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29,
         30, 31, 127, 220, 249],
    30: [10, 13, 22],  # and the end of the string
}


def huffman_codes():
    """The symbol of each (length, code)."""
    codes, code, last = {}, 0, 0
    for length, symbols in HUFFMAN_LENGTHS.items():
        code <<= length - last
        last = length
        for symbol in symbols:
            codes[length, code] = symbol
            code += 1
    assert len(codes) == 256 and code == 2**30 - 1
    return codes


HUFFMAN = huffman_codes()


def huffman_decoded(data):
    decoded, code, length = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, length = code << 1 | byte >> shift & 1, length + 1
            symbol = HUFFMAN.get((length, code))
            if symbol is not None:
                decoded.append(symbol)
                code = length = 0
    if length > 7 or code != (1 << length) - 1:
        raise Fault("bad padding of a Huffman string")
    return bytes(decoded)


class HeaderReader:
    """Decodes the header blocks of one connection, in their order."""

    def __init__(self, size_max):
        self.size_max = size_max
        # Until the client has acknowledged less, it may use what is there without asking.
        self.size = TABLE_BYTE_COUNT
        self.entries = []
        self.block = b""
        self.at = 0

    def byte(self):
        if self.at >= len(self.block):
            raise Fault("a header block breaks off")
        self.at += 1
        return self.block[self.at - 1]

    def integer(self, first, bit_count):
        value = first & (1 << bit_count) - 1
        if value < (1 << bit_count) - 1:
            return value
        shift = 0
        while True:
            byte = self.byte()
            value += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def string(self):
        first = self.byte()
        count = self.integer(first, 7)
        data = self.block[self.at:self.at + count]
        if len(data) < count:
            raise Fault("a header block breaks off")
        self.at += count
        return (huffman_decoded(data) if first & 0x80 else data).decode("latin-1")

    def entry(self, index):
        if 0 < index <= len(STATIC_TABLE):
            return STATIC_TABLE[index - 1]
        if 0 <= index - len(STATIC_TABLE) - 1 < len(self.entries):
            return self.entries[index - len(STATIC_TABLE) - 1]
        raise Fault(f"no header has the index {index}")

    def evict(self):
        while sum(len(name) + len(value) + 32 for name, value in self.entries) > self.size:
            self.entries.pop()

    def read(self, block):
        self.block, self.at = block, 0
        headers = []
        while self.at < len(block):
            first = self.byte()
            if first & 0x80:
                headers.append(self.entry(self.integer(first, 7)))
            elif first & 0xE0 == 0x20:
                self.size = self.integer(first, 5)
                if self.size > self.size_max:
                    raise Fault("the header table is larger than allowed")
                self.evict()
            else:
                is_kept = first & 0x40
                index = self.integer(first, 6 if is_kept else 4)
                name = self.entry(index)[0] if index else self.string()
                headers.append((name, self.string()))
                if is_kept:
                    self.entries.insert(0, headers[-1])
                    self.evict()
        return headers


def header_integer(value, bit_count, flags=0):
    limit = (1 << bit_count) - 1
    if value < limit:
        return bytes([flags | value])
    encoded, value = bytearray([flags | limit]), value - limit
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded + bytes([value]))


def header_block(headers):
    """Literals that no table keeps, without Huffman's code."""
    block = b""
    for pair in headers:
        block += b"\0"
        for text in pair:
            block += header_integer(len(text), 7) + text.encode("latin-1")
    return block
