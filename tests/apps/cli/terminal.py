"""Output of a program on a terminal that the tests provide."""

import errno
import os


def read_to_the_end(terminal):
    """Remaining output of a terminal that nobody writes to any more; the kernel passes it on in parts."""
    parts = []
    with os.fdopen(terminal, "rb", buffering=0) as stream:
        try:
            while part := stream.read(10000):
                parts.append(part)
        except OSError as error:  # how Linux says that the other end is closed
            assert error.errno == errno.EIO
    return b"".join(parts).decode()
