"""Bytes of RDB files and dumps: the checksum, strings."""


def _crc64_table():
    """CRC-64 with Jones' polynomial, lowest bit first."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x95ac9329ac4bc9b5 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc64_table()


def crc64(data):
    """Returns the checksum as the eight bytes that a file ends with."""
    crc = 0
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc.to_bytes(8, "little")


def packed(text):
    """Returns a string as in an RDB file, neither compressed nor as a number."""
    text = text.encode() if isinstance(text, str) else text
    size = len(text)
    if size < 64:
        return bytes([size]) + text
    return (size | 0x4000).to_bytes(2, "big") + text if size < 1 << 14 else b"\x80" + size.to_bytes(4, "big") + text
