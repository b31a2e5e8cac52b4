# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions over the native half: they accept what Python has for paths, options and progress."""

import json
import os
from collections.abc import Mapping

from . import _native
from ._arguments import U32_MAX, flags, plain, text, whole
from ._errors import UsageError
from ._inputs import opened
from ._progress import reporting


def _scenario(scenario, policy, sla):
    text(policy=policy)
    flags(sla=sla)
    args = {"path": None, "json": None, "policy": policy, "sla": sla}
    if isinstance(scenario, (str, os.PathLike)):
        args["path"] = os.fspath(scenario)
    elif isinstance(scenario, Mapping):
        args["json"] = json.dumps(plain(scenario, "scenario"))
    elif scenario is not None:
        raise UsageError(
            f"`scenario` is neither a file nor a dict: {scenario!r:.100}",
            hint="name a TOML file, or write its content as a dict",
        )
    return args


def _reading(**reading):
    text(**reading)
    return reading


def analyze(
    logs,
    *,
    format=None,
    log_format=None,
    client_from=None,
    days=None,
    scenario=None,
    policy=None,
    sla=True,
    show_addresses=False,
    storage_options=None,
    progress=None,
):
    """Compute from access logs what sleep would save, and which requests it would delay.

    ``logs`` is a path, a URL that fsspec opens (``s3://...``, with ``storage_options``), the content of a log as
    ``bytes``, or a list of them; plain or compressed. The other arguments are the options of ``nightwatt analyze``;
    ``scenario`` is a TOML file, or its content as a dict.
    ``progress`` is ``True``, ``False``, a function of ``(done, total, requests)``, or ``None``: a bar where there is
    tqdm and somewhere to show it.
    """
    reading = _reading(format=format, log_format=log_format, client_from=client_from)
    scenario = _scenario(scenario, policy, sla)
    flags(show_addresses=show_addresses)
    if days is not None:
        days = whole("days", days, 1, U32_MAX)
    with opened(logs, storage_options) as files, reporting(progress) as report:
        return _native.analyze(files, reading, days, scenario, show_addresses, report)


def summarize(
    logs, *, format=None, log_format=None, client_from=None, storage_options=None, progress=None
):
    """Sum up access logs: requests, statuses, sizes, hours, gaps.

    Summaries add up: ``summarize(a) + summarize(b)`` has the figures of ``summarize([a, b])``, in any order, so logs
    can be read in pieces and on many machines. Gaps are known if the pieces do not overlap in time by more than a
    minute.
    """
    reading = _reading(format=format, log_format=log_format, client_from=client_from)
    with opened(logs, storage_options) as files, reporting(progress) as report:
        return _native.summarize(files, reading, report)


def fleet(plan, *, progress=None):
    """Simulate pools of servers under their policies, as ``nightwatt fleet PLAN`` does.

    ``plan`` is a file, or the text of one.
    """
    if not isinstance(plan, (str, os.PathLike)):
        raise UsageError(f"`plan` is neither a file nor text: {plan!r:.100}")
    if isinstance(plan, str) and "\n" in plan:
        name, text, folder = "<plan>", plan, os.getcwd()
    else:
        name, text = os.fspath(plan), None
        folder = os.path.dirname(name)
    with reporting(progress, "simulations") as report:
        return _native.fleet(name, text, folder, report)
