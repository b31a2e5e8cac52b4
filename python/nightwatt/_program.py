# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the program measures, from Python: commands (`run`) and sections of this process (`Meter`)."""

import contextlib
import json
import math
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


def _time(name, value):
    """A time as the program reads it: `500ms`, or a number of seconds."""
    if isinstance(value, str):
        return value
    try:
        milliseconds = round(value * 1000) if math.isfinite(value) else 0
    except (TypeError, OverflowError):
        raise UsageError(
            f"`{name}` is not a time: {value!r}", hint="write a number of seconds, or text as `500ms`"
        ) from None
    if milliseconds <= 0:
        raise UsageError(f"`{name}` cannot be {value} s", hint="write 0.001 s or more")
    return f"{milliseconds}ms"


def _arguments(command):
    """The command to measure, as a list."""
    hint = "write a list of arguments: `shlex.split` makes one of a line"
    if isinstance(command, (str, bytes, os.PathLike)):
        raise UsageError(f"the command is not a list: {command!r}", hint=hint)
    try:
        arguments = [os.fspath(argument) for argument in command]
    except TypeError as error:
        raise UsageError("the command is not a list of arguments", [str(error)], hint) from None
    if not arguments:
        raise UsageError("there is no command", hint=hint)
    return arguments


@contextlib.contextmanager
def _starting(command):
    """A program that cannot be started is an error of this package."""
    try:
        yield
    except OSError as error:
        hint = "name nightwatt's program with NIGHTWATT_PROGRAM"
        raise Error(f"cannot start {command[0]}", [error.strerror or str(error)], hint) from error


def _failure(program, status, printed):
    """The program's own words as an exception."""
    what, causes, hint = printed.strip() or f"nightwatt ended with status {status}", [], None
    lines = what.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if starts:
        lines = lines[starts[-1] :]
        what = lines[0].removeprefix("error: ")
        causes = [line.removeprefix("  because: ") for line in lines if line.startswith("  because: ")]
        hint = next((line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")), None)
    elif status == 0:
        what, causes = f"{program} wrote no report", [what] if printed.strip() else []
        hint = "is that nightwatt's program? Name it with NIGHTWATT_PROGRAM"
    return (UsageError if status == 2 else Error)(what, causes, hint)


def _names(meters):
    names = [meters] if isinstance(meters, str) or not hasattr(meters, "__iter__") else list(meters)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"a meter is not named by text: {name!r}", hint="`nightwatt meters` lists them")
    return names


def _command(output, meters, interval, idle, repeat=1, warm_up=0):
    command = [_program(), "run", "--json", "-o", output]
    for meter in _names(meters):
        command += ["-m", meter]
    if interval is not None:
        command += ["-I", _time("interval", interval)]
    if idle is not None:
        command += ["--idle", _time("idle", idle)]
    return [*command, "-r", str(repeat), "--warm-up", str(warm_up), "--"]


def _read(path, program, status, printed):
    if os.path.getsize(path) == 0:
        raise _failure(program, status, printed)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run(command, *, meters=(), interval=None, idle=None, repeat=1, warm_up=0):
    """Measure how much energy a command uses, as ``nightwatt run`` does. Returns its ``--json`` as a dict.

    ``command`` is a list of arguments. Times are numbers of seconds, or text as ``500ms``.
    """
    arguments = _arguments(command)
    with tempfile.NamedTemporaryFile(prefix="nightwatt-", suffix=".json") as output:
        of_program = _command(output.name, meters, interval, idle, repeat, warm_up)
        with _starting(of_program):
            done = subprocess.run(
                [*of_program, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace"
            )
        report = _read(output.name, of_program[0], done.returncode, done.stderr)
    # The command's own words, and the program's warnings.
    sys.stderr.write(done.stderr)
    return report


class Meter:
    """Measures a section of this process::

        with nightwatt.Meter() as meter:
            train()
        meter.report["channels"]

    Meters measure the machine, or a part of it: what other processes use meanwhile is in the figure. ``report`` is
    the ``--json`` of ``nightwatt run``; ``idle`` is a time for which the idle machine is measured first.
    """

    def __init__(self, *meters, interval=None, idle=None):
        self.meters, self.interval, self.idle = meters, interval, idle
        self.report = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._output = tempfile.NamedTemporaryFile(prefix="nightwatt-", suffix=".json")
            stack.enter_context(self._output)
            command = _command(self._output.name, self.meters, self.interval, self.idle)
            # The measured command lasts as long as the section: it prints a line when it begins, and ends with its
            # input.
            command += ["/bin/sh", "-c", "echo; exec cat >/dev/null"]
            pipe = subprocess.PIPE
            # Ctrl-C is for this process; the program ends with its command.
            with _starting(command):
                self._process = subprocess.Popen(
                    command, stdin=pipe, stdout=pipe, stderr=pipe, errors="replace", start_new_session=True
                )
            with self._stopped_by_errors():
                if not self._process.stdout.readline():
                    self._end()
            # Until the section ends.
            stack.pop_all()
        return self

    def __exit__(self, *_):
        self.report = self._end()
        return False

    def _end(self):
        with self._output as output:
            with self._stopped_by_errors():
                _, printed = self._process.communicate()
            return _read(output.name, self._process.args[0], self._process.returncode, printed)

    @contextlib.contextmanager
    def _stopped_by_errors(self):
        """Ctrl-C, for one, does not leave the program behind."""
        try:
            yield
        except BaseException:
            with self._process:
                self._process.terminate()
            raise
