"""The checksums of Kelvin's files and of RDB files, for tests that change bytes."""


def table_of(polynomial):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


CRC64, CRC32C = table_of(0x95ac9329ac4bc9b5), table_of(0x82f63b78)


def crc64(data):
    """The checksum of RDB files."""
    crc = 0
    for byte in data:
        crc = CRC64[(crc ^ byte) & 255] ^ crc >> 8
    return crc


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff
