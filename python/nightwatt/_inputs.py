# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Logs as the native half reads them: files. Bytes and what fsspec opens become files of this process."""

import contextlib
import errno
import os
import threading
from collections.abc import Mapping

from ._errors import DeniedError, Error, NotFoundError, UsageError

_PART = 1 << 20
_BYTES = (bytes, bytearray, memoryview)
_HINT = "name a path or a URL, or give the content of a log as bytes, or a list of them"


class Part:
    """Content of a log, and what to call it."""

    def __init__(self, content, name):
        self.content, self.name = content, name


_LOG = (str, os.PathLike, *_BYTES, Part)


def _is_url(log):
    return isinstance(log, str) and "://" in log


def _check_log(log):
    if isinstance(log, _LOG):
        return
    hint = _HINT
    if hasattr(log, "read"):
        hint = "give its path, or its content as bytes: `file.read()` of a file opened with mode `rb`"
    raise UsageError(f"a {type(log).__name__} is not a log: {log!r:.100}", hint=hint)


def _as_list(logs):
    if isinstance(logs, _LOG):
        return [logs]
    if hasattr(logs, "read") or isinstance(logs, Mapping) or not hasattr(logs, "__iter__"):
        _check_log(logs)
    logs = list(logs)
    for log in logs:
        _check_log(log)
    if not logs:
        raise UsageError("there is no log", hint="name files, or patterns as `s3://bucket/logs/*.gz`")
    return logs


def _cannot_open(url, error):
    if isinstance(error, Error):
        return error
    kind, hint = Error, "check the address and its permissions"
    if isinstance(error, FileNotFoundError):
        kind = NotFoundError
    elif isinstance(error, PermissionError):
        kind = DeniedError
    elif isinstance(error, ImportError):
        hint = "install the package for such addresses: `pip install s3fs` for `s3://`"
    elif isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "add up summaries of fewer logs, or permit more open files: `ulimit -n 65536`"
    return kind(f"cannot open log {url}", [str(error) or repr(error)], hint)


class _Stream:
    """A pipe that a thread fills from what fsspec opens."""

    def __init__(self, url, options):
        self.url, self.failure = url, None
        try:
            import fsspec
        except ImportError as error:
            raise Error(
                f"cannot open log {url}", [str(error)], "`pip install fsspec`, and for `s3://` also s3fs"
            ) from None
        try:
            self.source = fsspec.open(url, "rb", **options).open()
        except Exception as error:  # Each file system has exceptions of its own.
            raise _cannot_open(url, error) from error
        try:
            self.end, self.mouth = os.pipe()
        except OSError as error:
            self.source.close()
            raise _cannot_open(url, error) from error
        self.path = f"/proc/self/fd/{self.end}"
        self.thread = threading.Thread(target=self._fill, name=f"nightwatt: {url}", daemon=True)
        self.thread.start()

    def _fill(self):
        try:
            with self.source, open(self.mouth, "wb", buffering=0) as mouth:
                while part := self.source.read(_PART):
                    view = memoryview(part)
                    while view:
                        view = view[mouth.write(view) :]
        except BrokenPipeError:
            # The reader has had enough.
            pass
        except Exception as error:
            self.failure = _cannot_open(self.url, error)

    def close(self):
        """Ends the thread; only then is it known whether it failed."""
        if self.end is not None:
            os.close(self.end)
            self.end = None
            self.thread.join()


def _of_memory(part):
    """A file without a name that has this content."""
    try:
        file = os.fdopen(os.memfd_create("nightwatt-log"), "wb")
    except OSError as error:
        raise _cannot_open(part.name, error) from error
    try:
        file.write(part.content)
        file.flush()
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def opened(logs, storage_options=None):
    """Pairs of a path, and of a name if that is not the path."""
    files, streams = [], []
    with contextlib.ExitStack() as stack:
        for log in _as_list(logs):
            if isinstance(log, _BYTES):
                log = Part(log, "<bytes>")
            if isinstance(log, Part):
                file = stack.enter_context(_of_memory(log))
                files.append((f"/proc/self/fd/{file.fileno()}", log.name))
            elif _is_url(log):
                stream = _Stream(log, dict(storage_options or {}))
                streams.append(stream)
                stack.callback(stream.close)
                files.append((stream.path, log))
            else:
                files.append((os.fspath(log), None))
        failure = None
        try:
            yield files
        except Error as error:
            failure = error
        # A log that broke off was read as one that ends early.
        for stream in streams:
            stream.close()
            if stream.failure is not None:
                raise stream.failure from failure
        if failure is not None:
            raise failure
