# SPDX-License-Identifier: Apache-2.0 OR MIT
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, TypeVar, Union

from . import dask as dask
from . import jupyter as jupyter
from . import policy as policy
from . import stats as stats
from ._native import Analysis as Analysis
from ._native import Fleet as Fleet
from ._native import Summary as Summary
from ._native import Table as Table

__all__ = [
    "begin",
    "caliper",
    "end",
    "Analysis",
    "Fleet",
    "Summary",
    "Table",
    "analyze",
    "fleet",
    "summarize",
    "run",
    "Meter",
    "Error",
    "UsageError",
    "NotFoundError",
    "DeniedError",
]

__version__: str

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Log = Union[str, os.PathLike[str], bytes, bytearray, memoryview]
_Logs = Union[_Log, Iterable[_Log]]
_Progress = Union[bool, Callable[[int, Optional[int], int], object], None]
_Scenario = Union[str, os.PathLike[str], Mapping[str, Any], None]
_Time = Union[str, float]

class Error(Exception):
    what: str
    causes: tuple[str, ...]
    hint: Optional[str]
    def __init__(self, what: str, causes: Iterable[str] = (), hint: Optional[str] = None) -> None: ...

class UsageError(Error, ValueError): ...
class NotFoundError(Error, FileNotFoundError): ...
class DeniedError(Error, PermissionError): ...

def analyze(
    logs: _Logs,
    *,
    format: Optional[str] = None,
    log_format: Optional[str] = None,
    client_from: Optional[str] = None,
    days: Optional[int] = None,
    scenario: _Scenario = None,
    policy: Optional[str] = None,
    sla: bool = True,
    show_addresses: bool = False,
    storage_options: Optional[Mapping[str, Any]] = None,
    progress: _Progress = None,
) -> Analysis: ...
def summarize(
    logs: _Logs,
    *,
    format: Optional[str] = None,
    log_format: Optional[str] = None,
    client_from: Optional[str] = None,
    storage_options: Optional[Mapping[str, Any]] = None,
    progress: _Progress = None,
) -> Summary: ...
def fleet(plan: Union[str, os.PathLike[str]], *, progress: _Progress = None) -> Fleet: ...
def run(
    command: Sequence[Union[str, os.PathLike[str]]],
    *,
    meters: Union[str, Iterable[str]] = (),
    interval: Optional[_Time] = None,
    idle: Optional[_Time] = None,
    repeat: int = 1,
    warm_up: int = 0,
) -> dict[str, Any]: ...

class Meter:
    meters: tuple[str, ...]
    interval: Optional[_Time]
    idle: Optional[_Time]
    report: Optional[dict[str, Any]]
    def __init__(self, *meters: str, interval: Optional[_Time] = None, idle: Optional[_Time] = None) -> None: ...
    def __enter__(self) -> Meter: ...
    def __exit__(self, *_: object) -> Literal[False]: ...

def begin(name: str) -> None: ...
def end(name: str) -> None: ...

class caliper:
    name: str
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> caliper: ...
    def __exit__(self, *_: object) -> Literal[False]: ...
    def __call__(self, function: _Function) -> _Function: ...

def load_ipython_extension(shell: Any) -> None: ...
