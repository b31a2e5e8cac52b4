# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Errors: what failed, why, and what to do next, in the words of the command line."""

import errno


class Error(Exception):
    """A call failed.

    ``what`` failed, because of ``causes`` (from the outside in); ``hint`` is what to do next, or ``None``.
    """

    def __init__(self, what, causes=(), hint=None):
        self.what, self.causes, self.hint = what, tuple(causes), hint
        super().__init__(str(self))

    def __str__(self):
        lines = [self.what]
        lines += [f"  because: {cause}" for cause in self.causes]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self):
        # Workers send their errors to the caller.
        return type(self), (self.what, self.causes, self.hint)


class UsageError(Error, ValueError):
    """An argument, or a file that it names, is wrong."""


class NotFoundError(Error, FileNotFoundError):
    """A file is missing."""

    def __init__(self, what, causes=(), hint=None):
        super().__init__(what, causes, hint)
        self.errno = errno.ENOENT


class DeniedError(Error, PermissionError):
    """A file may not be read."""

    def __init__(self, what, causes=(), hint=None):
        super().__init__(what, causes, hint)
        self.errno = errno.EACCES


_KINDS = {"failed": Error, "usage": UsageError, "missing": NotFoundError, "denied": DeniedError}


def make(kind, what, causes, hint):
    """The exception for an error of the native half."""
    return _KINDS[kind](what, causes, hint)
