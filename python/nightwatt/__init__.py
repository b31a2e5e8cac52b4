# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sections of a Python program that ``nightwatt caliper --markers`` measures.

    import nightwatt

    with nightwatt.caliper("parse"):
        ...

    @nightwatt.caliper("parse")
    def parse(text): ...

While nobody measures, a marker looks at one word of memory. While somebody does, it reads the clock and
writes 16 bytes into memory that this process shares with nightwatt; the kernel is not entered. docs/markers.md
has the layout, and what a marker costs here.

A section ends in the thread in which it began: an ``async`` function must not hold one across an ``await``.
Linux, CPython 3.9 or later, nothing else. On other systems markers do nothing.
"""

from ._markers import begin, caliper, end

__all__ = ["begin", "caliper", "end"]
