# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sleep policies, driven by hand, step by step: the policies that ``nightwatt serve`` runs.

    policy = nightwatt.policy.sleep_policy("timeout 5m")
    policy.observe(0.0, visitor="a")
    policy.verdict(10.0, idle_since=0.0)   # ask again at 300.0
    policy.verdict(300.0, idle_since=0.0)  # "sleep"
"""

from ._analyze import _scenario
from ._arguments import I32_MAX, finite, whole
from ._native import SleepPolicy

__all__ = ["SleepPolicy", "sleep_policy"]


def sleep_policy(policy=None, *, scenario=None, start=0.0, utc_offset=0):
    """A policy by its name (``"learned"``, ``"timeout 5m"``), or that of a scenario.

    ``scenario`` is a TOML file, or its content as a dict. ``start`` is the policy's time 0 in seconds since 1970
    (UTC); local time is ``utc_offset`` seconds ahead.
    """
    start, utc_offset = finite("start", start), whole("utc_offset", utc_offset, -I32_MAX, I32_MAX)
    return SleepPolicy(_scenario(scenario, policy, True), start, utc_offset)
