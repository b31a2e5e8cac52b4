# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Progress of long calls: tqdm's bar where there is tqdm and somewhere to show it."""

import contextlib
import sys


def _is_shown():
    """Whether a bar has a reader: a terminal, or a notebook."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()


@contextlib.contextmanager
def reporting(progress, what="requests"):
    """What the native half calls with ``(done, total, count)``, or ``None``.

    ``progress`` is a function of that kind, ``True`` (a bar), ``False`` (nothing), or ``None``: a bar if tqdm is
    installed and standard error is a terminal or a notebook.
    """
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _is_shown()):
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if progress:
            raise
        yield None
        return
    unit = "B" if what == "requests" else f" {what}"
    with tqdm(unit=unit, unit_scale=True, leave=False) as bar:

        def report(done, total, count):
            bar.total = total
            bar.set_postfix_str(f"{count:,} {what}", refresh=False)
            bar.update(done - bar.n)

        yield report
