"""The log of QEMU's `blklogwrites`, in the format of Linux' dm-log-writes: what came to a disk, in order.

Sectors of 512 bytes. The first is of the log itself; then for each request one with sector, count and flags,
followed by what was written.
"""

import struct

SECTOR = 512
FLUSH, DISCARD = 1, 4


def requests(path):
    """Each request: where it ends in the log, its flags, its first sector, what was written (empty: nothing was)."""
    with open(path, "rb") as log:
        log.seek(SECTOR)
        while len(head := log.read(SECTOR)) == SECTOR:
            sector, count, flags, _ = struct.unpack_from("<4Q", head)
            if not count and not flags:
                return
            data = b"" if flags & FLUSH and not count else bytes(count * SECTOR) if flags & DISCARD else log.read(count * SECTOR)
            yield log.tell(), flags, sector, data


class Came:
    """What came to a disk: up to its last flush, and after it."""

    def __init__(self, known, last):
        self.flushed, self.unflushed = known[:last + 1], [it for it in known[last + 1:] if it[3]]


def read(log, flushed):
    """What the log has. The last flushes of all are QEMU's own, unless they are within its first `flushed` bytes."""
    known = list(requests(log))
    last = max((index for index, it in enumerate(known) if it[3]), default=-1)
    is_guests = lambda index: known[index][0] <= flushed or index < last  # noqa: E731
    return Came(known, max((index for index, it in enumerate(known) if it[1] & FLUSH and is_guests(index)), default=-1))


def lose(disk, came, dice):
    """Writes to a disk what was flushed, and of the rest any sectors, but not all."""
    sectors = [(sector + at // SECTOR, data[at:at + SECTOR]) for _, _, sector, data in came.unflushed
               for at in range(0, len(data), SECTOR)]
    # Many, few, or none.
    kept = sorted(dice.sample(range(len(sectors)), dice.choice((0, dice.randrange(len(sectors)), len(sectors) - 1))))
    with open(disk, "r+b") as file:
        for _, _, sector, data in came.flushed:
            file.seek(sector * SECTOR)
            file.write(data)
        for index in kept:
            sector, data = sectors[index]
            file.seek(sector * SECTOR)
            file.write(data)
