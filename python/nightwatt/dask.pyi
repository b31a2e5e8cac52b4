# SPDX-License-Identifier: Apache-2.0 OR MIT
import os
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from ._native import Summary, Table

__all__ = ["analyze", "summarize", "sweep"]

_Urls = Union[str, os.PathLike[str], Iterable[Union[str, os.PathLike[str]]]]
_Options = Optional[Mapping[str, Any]]

def summarize(
    urls: _Urls,
    *,
    blocksize: Union[int, str, None] = None,
    storage_options: _Options = None,
    **reading: Optional[str],
) -> Summary: ...
def analyze(
    sites: Mapping[str, _Urls], *, storage_options: _Options = None, **options: Any
) -> dict[str, dict[str, Any]]: ...
def sweep(
    urls: _Urls,
    grid: Mapping[str, Iterable[Any]],
    *,
    scenario: _Options = None,
    storage_options: _Options = None,
    **options: Any,
) -> Table: ...
