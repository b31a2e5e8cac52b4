# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the program measures, from Python: commands (`run`) and sections of this process (`Meter`)."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from ._errors import Error, UsageError


def _program():
    """The program of this package, or else the one that the shell finds."""
    own = os.path.join(sysconfig.get_path("scripts"), "nightwatt")
    found = os.environ.get("NIGHTWATT_PROGRAM") or (own if os.path.exists(own) else shutil.which("nightwatt"))
    if not found:
        raise Error(
            "cannot measure: there is no program `nightwatt`",
            hint="install the Debian package, or name the program with NIGHTWATT_PROGRAM",
        )
    return found


def _time(value):
    """A time as the program reads it: `500ms`, or a number of seconds."""
    return value if isinstance(value, str) else f"{round(value * 1e6)}us"


def _failure(status, printed):
    """The program's own words as an exception."""
    what, causes, hint = printed.strip() or f"nightwatt ended with status {status}", [], None
    lines = what.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if starts:
        lines = lines[starts[-1] :]
        what = lines[0].removeprefix("error: ")
        causes = [line.removeprefix("  because: ") for line in lines if line.startswith("  because: ")]
        hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), None)
    return (UsageError if status == 2 else Error)(what, causes, hint)


def _command(output, meters, interval, idle, repeat=1, warm_up=0):
    command = [_program(), "run", "--json", "-o", output]
    for meter in [meters] if isinstance(meters, str) else meters:
        command += ["-m", meter]
    if interval is not None:
        command += ["-I", _time(interval)]
    if idle is not None:
        command += ["--idle", _time(idle)]
    return [*command, "-r", str(repeat), "--warm-up", str(warm_up), "--"]


def _read(path, status, printed):
    if os.path.getsize(path) == 0:
        raise _failure(status, printed)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run(command, *, meters=(), interval=None, idle=None, repeat=1, warm_up=0):
    """Measure how much energy a command uses, as ``nightwatt run`` does. Returns its ``--json`` as a dict.

    ``command`` is a list of arguments. Times are numbers of seconds, or text as ``500ms``.
    """
    with tempfile.NamedTemporaryFile(prefix="nightwatt-", suffix=".json") as output:
        of_program = _command(output.name, meters, interval, idle, repeat, warm_up)
        done = subprocess.run(
            [*of_program, *map(os.fspath, command)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        report = _read(output.name, done.returncode, done.stderr)
    # The command's own words, and the program's warnings.
    sys.stderr.write(done.stderr)
    return report


class Meter:
    """Measures a section of this process::

        with nightwatt.Meter() as meter:
            train()
        meter.report["energy_j"]

    Meters measure the machine, or a part of it: what other processes use meanwhile is in the figure. ``report`` is
    the ``--json`` of ``nightwatt run``; ``idle`` is a time for which the idle machine is measured first.
    """

    def __init__(self, *meters, interval=None, idle=None):
        self.meters, self.interval, self.idle = meters, interval, idle
        self.report = None

    def __enter__(self):
        self._output = tempfile.NamedTemporaryFile(prefix="nightwatt-", suffix=".json")
        command = _command(self._output.name, self.meters, self.interval, self.idle)
        # The measured command lasts as long as the section: it prints a line when it begins, and ends with its input.
        command += ["/bin/sh", "-c", "echo; exec cat >/dev/null"]
        pipe = subprocess.PIPE
        # Ctrl-C is for this process; the program ends with its command.
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        if not self._process.stdout.readline():
            self._end()
        return self

    def __exit__(self, *_):
        self.report = self._end()
        return False

    def _end(self):
        with self._output as output:
            _, printed = self._process.communicate()
            return _read(output.name, self._process.returncode, printed)
