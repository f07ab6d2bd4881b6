"""Segments (docs/formats/segment.md): parsed, and written in format 1 as older versions did."""
import os
import struct

UNIT, HEAD_SIZE, FOOTER_VALUE = 16, 32, 16


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def _padded(data):
    return data + bytes(-len(data) % UNIT)


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return number, at


def format_of(path):
    with open(path, "rb") as file:
        head = file.read(8)
    assert head[:4] == b"KSEG", path
    return head[4] - ord("0")


def records_of(path):
    """Returns (incarnation, kind, key, value) of each record of a segment of format 2, the footer's included."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"KSEG2\n\0\0"
    at, found = HEAD_SIZE, []
    while at < len(data):
        begin = at
        number, at = _varint(data, at + 4)
        incarnation, at = _varint(data, at)
        key_size, at = _varint(data, at)
        end = at + key_size + (number >> 3)
        assert struct.unpack_from("<I", data, begin)[0] == crc32c(data[begin + 4:end])
        found.append((incarnation, number & 7, data[at:at + key_size], data[at + key_size:end]))
        at = end + -end % UNIT
    return found


def _weight(size):
    return 96 << next(bits for bits in range(16) if bits == 15 or size <= 128 << bits)


def make_format_1(path):
    """Writes a segment of format 2 again in format 1: its records are at other places."""
    with open(path, "rb") as file:
        head = b"KSEG1\n\0\0" + file.read(HEAD_SIZE)[8:20]
    data, weight, count = [head + struct.pack("<I", crc32c(head)) + bytes(8)], 0, 0
    for incarnation, kind, key, value in records_of(path):
        if incarnation == 0:
            value = struct.pack("<QQ", weight, count)
        assert len(value) < 1 << 29
        body = struct.pack("<IQII", incarnation, 0, len(key), kind << 29 | len(value)) + key + value
        record = _padded(struct.pack("<I", crc32c(body)) + body)
        weight += _weight(len(record))
        count += 1
        data.append(record)
    os.unlink(path)                         # links of the file keep their bytes
    with open(path, "wb") as file:
        file.write(b"".join(data))
