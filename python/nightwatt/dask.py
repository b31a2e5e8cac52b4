# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many logs, many sites, many scenarios: on the cores and machines of a Dask cluster.

Without a cluster (``dask.distributed.Client``), Dask's own schedulers run the tasks on this machine. A task that is
lost with its worker runs again on another. Each worker needs this package, in the same version.

The unit of work is a file (or a block of a plain file) for `summarize`, whose figures are those of one machine to the
last digit, and a site for `analyze`: policies follow a site's requests in the order of time.
"""

import itertools
import json
import os
from collections.abc import Mapping

from . import _native
from ._analyze import analyze as _analyze_here
from ._analyze import summarize as _summarize_here
from ._arguments import plain
from ._errors import DeniedError, Error, NotFoundError, UsageError
from ._inputs import Part, _as_list, _cannot_open
from .policy import sleep_policy

__all__ = ["analyze", "summarize", "sweep"]

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
        is_missing = isinstance(version, importlib.metadata.PackageNotFoundError)
        if isinstance(version, BaseException) and not is_missing:
            # A worker that is gone by now: others run its tasks.
            continue
        if version != _native.VERSION:
            raise Error(
                f"worker {worker} has {'no nightwatt' if is_missing else f'nightwatt {version}'}",
                [str(version)] if is_missing else [],
                f"`pip install nightwatt=={_native.VERSION}` on every worker",
            )


def _is_pattern(url):
    if url.startswith(("http://", "https://")):
        # There `?` begins a query.
        return "*" in url
    has_wildcard = any(wildcard in url for wildcard in "*?[")
    return has_wildcard and ("://" in url or not os.path.exists(url))


def _files(urls, storage_options):
    """What patterns stand for, in order. What is no pattern stays as it is: its task finds out whether it is there."""
    _, fsspec = _dask()
    files = []
    for url in _as_list(urls):
        if not isinstance(url, (str, os.PathLike)):
            raise UsageError(
                f"a task reads a file or a URL, and not {type(url).__name__}",
                hint="`nightwatt.summarize` and `nightwatt.analyze` read the content of logs",
            )
        url = os.fspath(url)
        if not _is_pattern(url):
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
    return files


def _bytes(size):
    """A number of bytes, or text as `64MB`."""
    if size is None:
        return None
    from dask.utils import parse_bytes

    try:
        size = int(parse_bytes(size))
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise UsageError(
            f"`blocksize` is not a size: {size!r}", hint="write a number of bytes, or text as `64MB`"
        ) from None
    if size < 1:
        raise UsageError(f"`blocksize` cannot be {size}", hint="write 1 byte or more")
    return size


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
    except Exception:
        # The file's task finds out why.
        return [(url, None)]
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
    """A summary, and errors: a log that cannot be read does not cost what others have."""
    if part is None:
        try:
            return _summarize_here(url, progress=False, **options), []
        except UsageError:
            raise
        except Error as error:
            if not _is_of_the_log(error):
                raise
            return _native.Summary(), [error]
    options = dict(options)
    storage_options = options.pop("storage_options", {})
    try:
        text = _block(url, *part, storage_options)
    except Exception as error:
        raise _cannot_open(url, error) from error
    return _summarize_here(Part(text, f"{url} from byte {part[0]}"), progress=False, **options), []


def _is_of_the_log(error):
    """Not of the way to it: a connection that failed must not cost a figure unnoticed."""
    return isinstance(error, (NotFoundError, DeniedError)) or not error.what.startswith("cannot open log")


def _added(parts):
    return sum((summary for summary, _ in parts), _native.Summary()), [one for _, errors in parts for one in errors]


def _warning(error):
    """A summary of nothing but this warning, in the words that a log in a list has on one machine."""
    arrived, (state,) = _native.Summary().__reduce__()
    state = json.loads(state)
    words = ": ".join([error.what, *error.causes])
    state["summary"]["warnings"] = [f"{words}; {error.hint}" if error.hint else words]
    return arrived(json.dumps(state).encode())


def _computed(task):
    dask, _ = _dask()
    _check_workers()
    (result,) = dask.compute(task)
    return result


def summarize(urls, *, blocksize=None, storage_options=None, **reading):
    """Sum up many logs: paths, URLs, or patterns of them (``s3://bucket/logs/*.gz``).

    With ``blocksize`` (bytes, or text as ``64MB``), plain files are cut into blocks of whole lines. ``reading`` has
    ``format``, ``log_format`` and ``client_from``. A log among several that cannot be read is one of the ``warnings``.
    """
    dask, _ = _dask()
    storage_options, blocksize = dict(storage_options or {}), _bytes(blocksize)
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
    found, errors = _computed(level[0])
    if len(errors) == len(pieces):
        raise errors[0]
    return sum(map(_warning, errors), found)


def _site(urls, options):
    return _analyze_here(urls, progress=False, **options).figures


def analyze(sites, *, storage_options=None, **options):
    """Analyse many sites, each as `nightwatt.analyze` does: a dict of their figures, by the keys of ``sites``.

    ``sites`` maps a site's name to its logs: paths, URLs or patterns. ``options`` are those of `nightwatt.analyze`.
    """
    dask, _ = _dask()
    if not isinstance(sites, Mapping):
        raise UsageError(
            f"`sites` is not a dict: {sites!r:.100}", hint='name each site: `{"shop": "logs/shop/*.gz"}`'
        )
    storage_options = dict(storage_options or {})
    task = dask.delayed(_site, pure=True)
    options = {**options, "storage_options": storage_options}
    tasks = {
        name: task(_files(urls, storage_options), options) for name, urls in sites.items()
    }
    return _computed(tasks)


def _with(scenario, point):
    """The scenario with values at dotted keys: ``{"server.on_w": 60}``."""
    scenario = json.loads(json.dumps(scenario))
    for key, value in point.items():
        *tables, last = key.split(".")
        table = scenario
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise UsageError(f"`{key}` is in no table: `{name}` has a value of its own")
        table[last] = value
    return scenario


def _point(urls, point, scenario, options):
    analysis = _analyze_here(urls, scenario=_with(scenario, point), progress=False, **options)
    figures = analysis.figures
    return {**point, **figures["policies"][figures["default_policy"]]}, analysis.policies.units


def _axes(grid, options):
    """The grid's keys and their values, checked."""
    if not isinstance(grid, Mapping):
        raise UsageError(f"the grid is not a dict: {grid!r:.100}", hint='write `{"server.on_w": [30, 60]}`')
    axes = {}
    for key, values in grid.items():
        if not isinstance(key, str):
            raise UsageError(f"a key of the grid is not text: {key!r}", hint="write it as `server.on_w`")
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
            raise UsageError(f"`{key}` has no list of values: {values!r:.100}", hint="write it in brackets")
        axes[key] = [plain(value, key) for value in values]
    for option, default, key in (("policy", None, "policy"), ("sla", True, "sla.enabled")):
        repeats = {key, key.split(".")[0]} & axes.keys()
        if repeats and options.get(option, default) is not default:
            raise UsageError(
                f"`{option}` would override `{min(repeats)}` of the grid", hint="leave out one of them"
            )
    for key in axes:
        if any(other.startswith(f"{key}.") for other in axes):
            raise UsageError(f"the grid has `{key}`, and keys within it", hint="leave out one of them")
    return axes


def _points(grid, scenario, options):
    """Each combination of the grid's values; an error now if any has no scenario."""
    axes = _axes(grid, options)
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    if not points:
        raise UsageError("the grid has no point", hint="give each key a list with at least one value")
    for point in points:
        sleep_policy(options.get("policy"), scenario=_with(scenario, point))
    return points


def _column(values):
    """Values as a column can have them: structured ones, and those of several types, as JSON."""
    is_text = any(isinstance(value, (str, dict, list)) for value in values)
    if not is_text:
        return values
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def sweep(urls, grid, *, scenario=None, storage_options=None, **options):
    """Analyse one site's logs under each combination of values: a `nightwatt.Table` with one row for each.

    ``grid`` maps keys of a scenario to lists of values: ``{"policy": ["learned", "timeout 5m"], "server.on_w":
    [30, 60]}``. The columns are those keys, and the figures of the scenario's policy. ``scenario`` is a dict with the
    values that do not vary.
    """
    dask, _ = _dask()
    if scenario is not None and not isinstance(scenario, Mapping):
        raise UsageError(
            f"`scenario` is not a dict: {scenario!r:.100}", hint="`tomllib.load` makes one of a TOML file"
        )
    scenario, storage_options = plain(scenario or {}, "scenario"), dict(storage_options or {})
    points = _points(grid, scenario, options)
    task = dask.delayed(_point, pure=True)
    options = {**options, "storage_options": storage_options}
    urls = _files(urls, storage_options)
    found = _computed([task(urls, point, scenario, options) for point in points])
    rows = [row for row, _ in found]
    # A currency may vary.
    units = dict(set.intersection(*(set(units.items()) for _, units in found)))
    return _native.Table({name: _column([row[name] for row in rows]) for name in rows[0]}, units)
