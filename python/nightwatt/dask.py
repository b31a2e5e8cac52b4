# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many logs, many sites, many scenarios: on the cores and machines of a Dask cluster.

Without a cluster (``dask.distributed.Client``), Dask's own schedulers run the tasks on this machine. A task that is lost
with its worker runs again on another. Each worker needs this package, in the same version.

The unit of work is a file (or a block of a plain file) for `summarize`, whose figures are those of one machine to the
last digit, and a site for `analyze`: policies follow a site's requests in the order of time.
"""

import itertools
import json
import os

from . import _native
from ._analyze import analyze as _analyze_here
from ._analyze import summarize as _summarize_here
from ._errors import Error, UsageError
from ._inputs import _as_list, _cannot_open

# Summaries that one task adds up.
_FAN_IN = 8
_LINE_AT_MOST = 1 << 20


def _dask():
    try:
        import dask
        import fsspec
    except ImportError as error:
        raise Error(
            "cannot use Dask", [str(error)], "`pip install 'nightwatt[dask]'`"
        ) from None
    return dask, fsspec


def _check_workers():
    """The same version on every worker, if there is a cluster: an error before the work, not within it."""
    try:
        from distributed import get_client

        client = get_client()
    except (ImportError, ValueError):
        return
    import importlib.metadata

    versions = client.run(importlib.metadata.version, "nightwatt", on_error="return")
    for worker, version in versions.items():
        if version != _native.VERSION:
            is_missing = isinstance(version, BaseException)
            raise Error(
                f"worker {worker} has {'no nightwatt' if is_missing else f'nightwatt {version}'}",
                [str(version)] if is_missing else [],
                f"`pip install nightwatt=={_native.VERSION}` on every worker",
            )


def _files(urls, storage_options):
    """What patterns stand for, in order. What is no pattern is taken as it is: its task finds out whether it is there."""
    _, fsspec = _dask()
    files = []
    for url in _as_list(urls):
        url = os.fspath(url)
        if "*" not in url and "?" not in url and "[" not in url:
            files.append(url)
            continue
        try:
            system, path = fsspec.core.url_to_fs(url, **storage_options)
            found = sorted(system.glob(path))
        except Exception as error:  # Each file system has exceptions of its own.
            raise _cannot_open(url, error) from error
        if not found:
            raise UsageError(f"no log matches {url}", hint="check the address and the pattern")
        files += [system.unstrip_protocol(name) if "://" in url else name for name in found]
    if not files:
        raise UsageError("there is no log", hint="name files, or patterns as `s3://bucket/logs/*.gz`")
    return files


def _blocks(url, size, storage_options):
    """Where a file is cut; one piece if it is compressed (or not to be cut)."""
    if size is None:
        return [(url, None)]
    _, fsspec = _dask()
    try:
        with fsspec.open(url, "rb", **storage_options) as file:
            begin = file.read(6)
        system, path = fsspec.core.url_to_fs(url, **storage_options)
        length = system.size(path)
    except Exception as error:
        raise _cannot_open(url, error) from error
    packed = begin.startswith((b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ"))
    if packed or begin.startswith(b"#") or not length:
        return [(url, None)]
    return [(url, (at, min(at + size, length))) for at in range(0, length, size)]


def _block(url, begin, end, storage_options):
    """The lines that begin in this part of a file."""
    _, fsspec = _dask()
    with fsspec.open(url, "rb", **storage_options) as file:
        if begin:
            # A line that begins exactly here has the end of another in front of it.
            file.seek(begin - 1)
            while (skipped := file.readline(_LINE_AT_MOST)) and not skipped.endswith(b"\n"):
                pass
        at = file.tell()
        text = file.read(end - at) if at < end else b""
        while text and not text.endswith(b"\n") and (more := file.readline(_LINE_AT_MOST)):
            text += more
    return text


def _summary(url, part, options):
    if part is None:
        return _summarize_here(url, progress=False, **options)
    options = dict(options)
    storage_options = options.pop("storage_options", {})
    try:
        text = _block(url, *part, storage_options)
    except Exception as error:
        raise _cannot_open(url, error) from error
    return _summarize_here(text, progress=False, **options)


def _added(parts):
    return sum(parts, _native.Summary())


def _computed(task):
    dask, _ = _dask()
    _check_workers()
    (result,) = dask.compute(task)
    return result


def summarize(urls, *, blocksize=None, storage_options=None, **reading):
    """Sum up many logs: paths, URLs, or patterns of them (``s3://bucket/logs/*.gz``).

    With ``blocksize`` (bytes), plain files are cut into blocks of whole lines. ``reading`` has ``format``,
    ``log_format`` and ``client_from``.
    """
    dask, _ = _dask()
    storage_options = storage_options or {}
    pieces = [
        piece
        for url in _files(urls, storage_options)
        for piece in _blocks(url, blocksize, storage_options)
    ]
    options = {**reading, "storage_options": storage_options}
    summary, added = dask.delayed(_summary, pure=True), dask.delayed(_added, pure=True)
    level = [summary(url, part, options) for url, part in pieces]
    while len(level) > 1:
        level = [added(level[at : at + _FAN_IN]) for at in range(0, len(level), _FAN_IN)]
    return _computed(level[0])


def _site(urls, options):
    return _analyze_here(urls, progress=False, **options).figures


def analyze(sites, *, storage_options=None, **options):
    """Analyse many sites, each as `nightwatt.analyze` does: a dict of their figures, by the keys of ``sites``.

    ``sites`` maps a site's name to its logs: paths, URLs or patterns. ``options`` are those of `nightwatt.analyze`.
    """
    dask, _ = _dask()
    storage_options = storage_options or {}
    task = dask.delayed(_site, pure=True)
    options = {**options, "storage_options": storage_options}
    tasks = {
        name: task(_files(urls, storage_options), options) for name, urls in sites.items()
    }
    return _computed(tasks)


def _with(scenario, point):
    """The scenario with values at dotted keys: ``{"server.on_w": 60}``."""
    scenario = json.loads(json.dumps(scenario or {}))
    for key, value in point.items():
        *tables, last = key.split(".")
        table = scenario
        for name in tables:
            table = table.setdefault(name, {})
        table[last] = value
    return scenario


def _point(urls, point, scenario, options):
    figures = _analyze_here(urls, scenario=_with(scenario, point), progress=False, **options).figures
    return {**point, **figures["policies"][figures["default_policy"]]}


def sweep(urls, grid, *, scenario=None, storage_options=None, **options):
    """Analyse one site's logs under each combination of values: a `nightwatt.Table` with one row for each.

    ``grid`` maps keys of a scenario to lists of values: ``{"policy": ["learned", "timeout 5m"], "server.on_w":
    [30, 60]}``. The columns are those keys, and the figures of the scenario's policy.
    """
    dask, _ = _dask()
    storage_options = storage_options or {}
    points = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    if not points:
        raise UsageError("the grid has no point", hint="give each key a list with at least one value")
    task = dask.delayed(_point, pure=True)
    options = {**options, "storage_options": storage_options}
    urls = _files(urls, storage_options)
    rows = _computed([task(urls, point, scenario, options) for point in points])
    return _native.Table({name: [row[name] for row in rows] for name in rows[0]})
