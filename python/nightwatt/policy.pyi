# SPDX-License-Identifier: Apache-2.0 OR MIT
import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from ._native import SleepPolicy as SleepPolicy

__all__ = ["SleepPolicy", "sleep_policy"]

def sleep_policy(
    policy: Optional[str] = None,
    *,
    scenario: Union[str, os.PathLike[str], Mapping[str, Any], None] = None,
    start: float = 0.0,
    utc_offset: int = 0,
) -> SleepPolicy: ...
