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


def lose(disk, log, flushed, dice):
    """Writes to a disk what its log has up to the last flush within `flushed` bytes, and any sectors of the rest.

    Gives the number of sectors that were left out.
    """
    known = list(requests(log))
    last = max((index for index, it in enumerate(known) if it[1] & FLUSH and it[0] <= flushed), default=-1)
    lost = 0
    with open(disk, "r+b") as file:
        for index, (_, _, sector, data) in enumerate(known):
            # A request is there, is not, or is there in part.
            chance = 1.0 if index <= last else dice.choice((0.0, 0.5, 1.0))
            for at in range(0, len(data), SECTOR):
                if chance == 1.0 or dice.random() < chance:
                    file.seek(sector * SECTOR + at)
                    file.write(data[at:at + SECTOR])
                else:
                    lost += 1
    return lost
