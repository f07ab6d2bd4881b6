"""Programs to which the kernel refuses io_uring, as in many containers: a seccomp filter, which a process and all it starts keep.

    Server(prefix=WITHOUT_IO_URING)
    /usr/bin/python3 tests/support/seccomp.py program argument ...
"""
import ctypes
import errno as errors
import os
import struct
import sys

WITHOUT_IO_URING = [sys.executable, os.path.abspath(__file__)]

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7fff0000, 0x00050000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
IO_URING_SETUP = 425                    # the same number on all architectures


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def forbid(number, error=errors.EPERM):
    """The system call fails with `error` from now on, in this process."""
    code = b"".join(struct.pack("=HBBI", *step) for step in (
        (LOAD_WORD, 0, 0, 0),           # the number of the call
        (JUMP_IF_EQUAL, 0, 1, number),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | error),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW)))
    memory = ctypes.create_string_buffer(code, len(code))
    program = Program(4, ctypes.cast(memory, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    forbid(IO_URING_SETUP)
    os.execv(sys.argv[1], sys.argv[1:])
