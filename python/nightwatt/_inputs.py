# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Logs as the native half reads them: files. Bytes and what fsspec opens become files of this process."""

import contextlib
import os
import threading

from ._errors import DeniedError, Error, NotFoundError

_PART = 1 << 20


def _is_url(log):
    return isinstance(log, str) and "://" in log


def _as_list(logs):
    if isinstance(logs, (str, bytes, bytearray, memoryview, os.PathLike)):
        return [logs]
    return list(logs)


def _cannot_open(url, error):
    kind = Error
    if isinstance(error, FileNotFoundError):
        kind = NotFoundError
    elif isinstance(error, PermissionError):
        kind = DeniedError
    return kind(
        f"cannot open log {url}", [str(error) or repr(error)], "check the address and its permissions"
    )


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
        self.end, self.mouth = os.pipe()
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


@contextlib.contextmanager
def opened(logs, storage_options=None):
    """Pairs of a path, and of a name if that is not the path."""
    files, streams = [], []
    with contextlib.ExitStack() as stack:
        for log in _as_list(logs):
            if isinstance(log, (bytes, bytearray, memoryview)):
                file = stack.enter_context(os.fdopen(os.memfd_create("nightwatt-log"), "wb"))
                file.write(log)
                file.flush()
                files.append((f"/proc/self/fd/{file.fileno()}", "<bytes>"))
            elif _is_url(log):
                stream = _Stream(log, storage_options or {})
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
