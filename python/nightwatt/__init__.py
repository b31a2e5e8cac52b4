# SPDX-License-Identifier: Apache-2.0 OR MIT
"""nightwatt for notebooks: what sleeping would save on an access log, and markers for ``nightwatt caliper``.

    import nightwatt, polars
    analysis = nightwatt.analyze("access.log")
    polars.DataFrame(analysis.policies)

    with nightwatt.caliper("parse"):
        ...

Tables are Arrow tables: Polars, pandas, PyArrow and DuckDB read them without a copy. docs/python.md has the rest.

Without a reader, a marker looks at one word of memory. With a reader, it reads the clock and writes 16
bytes into memory that this process shares with nightwatt; it does not enter the kernel. docs/markers.md
has the layout, and what a marker costs here. A section ends in the thread in which it began: an ``async``
function must not hold one across an ``await``. On systems other than Linux markers do nothing.
"""

import importlib

from ._markers import begin, caliper, end

# The native half is loaded at its first use: markers need none of it, and `import nightwatt` stays quick.
_LAZY = {
    "Analysis": "_native",
    "Fleet": "_native",
    "Summary": "_native",
    "Table": "_native",
    "analyze": "_analyze",
    "fleet": "_analyze",
    "summarize": "_analyze",
    "run": "_program",
    "Meter": "_program",
    "Error": "_errors",
    "UsageError": "_errors",
    "NotFoundError": "_errors",
    "DeniedError": "_errors",
}

__all__ = ["begin", "caliper", "end", *_LAZY]


_MODULES = ("dask", "jupyter", "policy", "stats")


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"nightwatt.{name}")
    if name == "__version__":
        return importlib.import_module("nightwatt._native").VERSION
    if name not in _LAZY:
        raise AttributeError(f"module 'nightwatt' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"nightwatt.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def load_ipython_extension(shell):
    """``%load_ext nightwatt`` adds the cell magic ``%%energy``."""
    importlib.import_module("nightwatt.jupyter").load_ipython_extension(shell)
