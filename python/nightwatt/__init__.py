# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sections of a Python program that ``nightwatt caliper --markers`` measures.

    import nightwatt

    with nightwatt.caliper("parse"):
        ...

    @nightwatt.caliper("parse")
    def parse(text): ...

Without a reader, a marker looks at one word of memory. With a reader, it reads the clock and writes 16
bytes into memory that this process shares with nightwatt; it does not enter the kernel. docs/markers.md
has the layout, and what a marker costs here.

A section ends in the thread in which it began: an ``async`` function must not hold one across an ``await``.
Linux, CPython 3.9 or later, nothing else. On other systems markers do nothing.
"""

from ._markers import begin, caliper, end

__all__ = ["begin", "caliper", "end"]
