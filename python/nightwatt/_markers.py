# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory that this process shares with the reader of its markers: the layout of ``nightwatt.h``."""

import errno
import fcntl
import functools
import mmap
import os
import socket
import struct
import sys
import threading
import time

SECTIONS = 256
RINGS = 128
RECORDS = 65536
FRONT = 36864
RING = 4096 + 16 * RECORDS
NAMES_AT = 4096
HEADS_AT = 20480

# Words of 32 bits in the front.
_ENABLED = 4
_NAMED = 6
_REFUSED = 7
_READINGS = 10
_VISIBLE = 11
# Words of 64 bits.
_WITHOUT_RING = 6

_BEGINS, _ENDS, _TAKES = 1, 2, 3

# A thread that found no ring looks again at each so manieth call.
_TRIES = 1024

_clock = time.monotonic_ns
# Where `enabled` is looked for; before there is memory to share, here.
_FIRST = memoryview(bytearray(struct.pack("=8I", 0, 0, 0, 0, 1, 0, 0, 0))).cast("I")
_NEVER = memoryview(bytearray(32)).cast("I")

_words = _FIRST
_lock = threading.Lock()
_numbers: dict[str, int] = {}
_process = None
_reader_of_parent = ""
_local = threading.local()


def _above_standard(file):
    """Not where a program that has closed its standard files believes these to be."""
    if file > 2:
        return file
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(file)


def _identity(file):
    stat = os.fstat(file)
    return stat.st_dev, stat.st_ino


class _Ring:
    """The ring of a thread, which has it until it ends."""

    def __init__(self, process, number):
        self.process = process
        area = mmap.mmap(process.file, RING, offset=FRONT + number * RING)
        # A child does without it.
        if hasattr(mmap, "MADV_DONTFORK"):
            area.madvise(mmap.MADV_DONTFORK)
        self.lost = memoryview(area)[: 8 * SECTIONS].cast("Q")
        self.records = memoryview(area)[4096:].cast("Q")
        at = HEADS_AT + 128 * number
        self.head = memoryview(process.front)[at : at + 128].cast("Q")
        self.owner = memoryview(process.front)[at : at + 4].cast("I")
        # No other process writes it, so it is not read from there.
        self.written = self.head[1]
        self.reading = 0
        self.open = 0
        self.skipped = {}

    def write(self, word):
        # Memory is written in this order by CPython on x86: first the record, then that it is there.
        at = self.written % RECORDS * 2
        self.records[at] = _clock()
        self.records[at + 1] = word
        self.written += 1
        self.head[1] = self.written

    def room(self):
        return RECORDS - (self.written - self.head[8])

    def lose(self, section):
        self.lost[section] += 1
        self.skipped[section] = self.skipped.get(section, 0) + 1
        self.head[2] += 1
        if self.head[2] % 65536 == 0:
            self.process.look_for_reader()

    def mark(self, section, kind):
        if kind == _BEGINS:
            # Room is kept for the ends of what is open: calls get lost, never halves of them.
            if self.skipped.get(section) or self.room() <= self.open + 1:
                self.lose(section)
                return
            self.open += 1
        elif self.skipped.get(section):
            self.skipped[section] -= 1
            return
        elif self.open:
            self.open -= 1
        elif self.room() <= 1:
            return
        self.write(section | kind << 32)


class _Owner:
    """Lives as long as a thread does, and gives its ring to the next."""

    def __init__(self, ring):
        self.ring = ring

    def __del__(self):
        # In a child the memory is not its own, and not even mapped.
        if self.ring.process is _process:
            self.ring.owner[0] = 0


class _Process:
    def __init__(self):
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.file = _above_standard(os.memfd_create("nightwatt-markers", flags))
        try:
            self.file_is = _identity(self.file)
            os.ftruncate(self.file, FRONT + RINGS * RING)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, seals)
            self.front = mmap.mmap(self.file, FRONT)
        except BaseException:
            os.close(self.file)
            raise
        self.words = memoryview(self.front)[:64].cast("I")
        self.connection = None
        self.words[2] = 1
        self.words[3] = os.getpid()
        for name, number in _numbers.items():
            self.name(name, number)
        self.front[:8] = b"NWMARKS\0"
        reader = _reader_of_parent or os.environ.get("NIGHTWATT_MARKERS", "")
        address = os.fsencode(reader)
        if reader.startswith("@") and 1 < len(address) < 108:
            self.front[64 : 64 + len(address)] = address
            # From the first record on, whenever it is read.
            self.words[_READINGS] = self.words[_ENABLED] = 1
            if not self.report(address):
                self.words[_ENABLED] = 0

    def report(self, address):
        """Hands the memory to the reader that waits at this address; within a second or not at all."""
        try:
            file = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()
            connection = socket.socket(fileno=_above_standard(file))
        except OSError:
            return False
        try:
            connection.settimeout(1)
            connection.connect(b"\0" + address[1:])
            socket.send_fds(connection, [b"m"], [self.file])
        except OSError:
            connection.close()
            return False
        self.connection = connection
        return True

    def name(self, name, number):
        # Cut at 63 bytes; a character that is cut in the middle is shown as such.
        text = name.encode(errors="replace")[:63]
        at = NAMES_AT + 64 * number
        self.front[at : at + len(text)] = text
        self.words[_NAMED] = number + 1

    def look_for_reader(self):
        """A reader that was killed cannot say that it has stopped: stop marking if it is gone."""
        try:
            if self.words[_VISIBLE]:
                os.kill(self.words[_VISIBLE], 0)
        except OSError as error:
            if error.errno == errno.ESRCH:
                self.words[_ENABLED] = 0

    def has_file(self):
        """Unless the program has closed all files and has another there."""
        try:
            return _identity(self.file) == self.file_is
        except OSError:
            return False

    def take_ring(self):
        me = threading.get_native_id()
        if not self.has_file():
            return None
        with _lock:
            for number in range(RINGS):
                ring = HEADS_AT + 128 * number
                owner, written, read = (
                    struct.unpack_from("=I", self.front, ring)[0],
                    struct.unpack_from("=Q", self.front, ring + 8)[0],
                    struct.unpack_from("=Q", self.front, ring + 64)[0],
                )
                if owner or RECORDS - (written - read) < 2:
                    continue
                struct.pack_into("=I", self.front, ring, me)
                try:
                    taken = _Ring(self, number)
                except (OSError, ValueError):
                    # No file or no memory can be had: that is nothing to the program.
                    struct.pack_into("=I", self.front, ring, 0)
                    return None
                taken.write(me | _TAKES << 32)
                return taken
        return None


def _begin_process():
    """The first marker of a process. `_lock` is held."""
    global _process, _words
    if _words is not _FIRST:
        return
    try:
        _process = _Process()
        _words = _process.words
    except (AttributeError, OSError, ValueError):
        # Not Linux, or no memory to share.
        _words = _NEVER


def _child_begins():
    """A child has memory of its own, from its first marker on."""
    global _process, _words, _lock, _local, _reader_of_parent
    _lock = threading.Lock()
    if _process is None:
        return
    parent, _process, _words = _process, None, _FIRST
    _local = threading.local()
    _reader_of_parent = ""
    if parent.words[_ENABLED]:
        _reader_of_parent = parent.front[64:172].split(b"\0")[0].decode(errors="surrogateescape")
    if parent.has_file():
        os.close(parent.file)
        if parent.connection is not None:
            parent.connection.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child_begins)


def _number(name):
    with _lock:
        _begin_process()
        number = _numbers.get(name)
        if number is None and len(_numbers) < SECTIONS:
            number = _numbers[name] = len(_numbers)
            if _process is not None:
                _process.name(name, number)
        elif number is None and _process is not None:
            _process.words[_REFUSED] += 1
    return number


def _prepare(enabled, kind):
    """A ring of this process and this reading; None if all are taken, or without a reader."""
    if enabled and _process is not None and getattr(_local, "refused", 0) == enabled:
        _local.tries += 1
        if _local.tries % _TRIES:
            _count_without_ring(_process, kind)
            return None
    with _lock:
        _begin_process()
        process = _process
    enabled = _words[_ENABLED]
    if not enabled or process is None:
        return None
    owner = getattr(_local, "owner", None)
    if owner is None or owner.ring.process is not process:
        ring = process.take_ring()
        if ring is None:
            if getattr(_local, "refused", 0) != enabled:
                _local.refused, _local.tries = enabled, 0
            _count_without_ring(process, kind)
            return None
        _local.owner = owner = _Owner(ring)
        _local.ring = ring
    ring = owner.ring
    if ring.reading != enabled:
        # What was open in a reading before is nothing to this one.
        ring.reading = enabled
        ring.open = 0
        ring.skipped = {}
    return ring


def _count_without_ring(process, kind):
    if kind == _BEGINS:
        memoryview(process.front)[:64].cast("Q")[_WITHOUT_RING] += 1


def _mark(name, kind):
    number = _numbers.get(name)
    if number is None:
        number = _number(name)
        if number is None:
            return
    enabled = _words[_ENABLED]
    ring = getattr(_local, "ring", None)
    if ring is None or ring.reading != enabled:
        ring = _prepare(enabled, kind)
        if ring is None:
            return
    ring.mark(number, kind)


def _checked(name):
    if not isinstance(name, str):
        raise TypeError(f"a section's name is a str, not {type(name).__name__}")
    return name


def _is_done_when_it_returns(function):
    import inspect

    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def begin(name):
    """The section of that name begins in this thread."""
    _checked(name)
    if _words[_ENABLED]:
        _mark(name, _BEGINS)


def end(name):
    """The last section of that name that began in this thread ends."""
    _checked(name)
    if _words[_ENABLED]:
        _mark(name, _ENDS)


class caliper:
    """A section: ``with caliper("parse"): ...``, or ``@caliper("parse")`` in front of a function."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = _checked(name)

    def __enter__(self):
        if _words[_ENABLED]:
            _mark(self.name, _BEGINS)
        return self

    def __exit__(self, *_):
        if _words[_ENABLED]:
            _mark(self.name, _ENDS)
        return False

    def __call__(self, function):
        if not _is_done_when_it_returns(function):
            raise TypeError(
                f"{function!r} only makes what runs later (a coroutine or a generator), and that alone "
                "would be measured: mark a part of its body without `await` and `yield`, by `with`"
            )
        name = self.name

        @functools.wraps(function)
        def marked(*arguments, **keywords):
            if not _words[_ENABLED]:
                return function(*arguments, **keywords)
            _mark(name, _BEGINS)
            try:
                return function(*arguments, **keywords)
            finally:
                if _words[_ENABLED]:
                    _mark(name, _ENDS)

        return marked


if sys.byteorder != "little":
    # A section and what becomes of it are written as one word.
    _words = _NEVER
