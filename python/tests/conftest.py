# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Logs, and the program beside which results are checked."""

import os
import random
import shutil

import pytest

# Programs whose parts pytest must not collect.
collect_ignore = ["marks.py", "refusals.py", "smoke.py"]

AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/8.5.0",
)


def lines(days, seed, begins_on=1, per_day=300):
    """Lines of an access log, by a seed."""
    draw = random.Random(seed)
    for day in range(begins_on, begins_on + days):
        times = sorted(draw.randrange(86_400) for _ in range(per_day))
        for at in times:
            when = f"{day:02}/Oct/2026:{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02} +0000"
            yield (
                f'198.51.100.{draw.randrange(40)} - - [{when}] "GET /page/{draw.randrange(60)} HTTP/1.1" '
                f'{draw.choice((200, 200, 200, 304, 404))} {draw.randrange(50_000)} "-" "{draw.choice(AGENTS)}"\n'
            )


@pytest.fixture(scope="session")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "access.log"
    path.write_text("".join(lines(3, 1)), encoding="ascii")
    return path


@pytest.fixture(scope="session")
def long_log(tmp_path_factory):
    """A log that takes a second or so to analyse."""
    path = tmp_path_factory.mktemp("logs") / "long.log"
    path.write_text("".join(lines(20, 2, per_day=10_000)), encoding="ascii")
    return path


@pytest.fixture(scope="session")
def program():
    found = os.environ.get("NIGHTWATT_PROGRAM") or shutil.which("nightwatt")
    if not found:
        pytest.skip("skipped: NIGHTWATT_PROGRAM names no nightwatt to compare with")
    return found
