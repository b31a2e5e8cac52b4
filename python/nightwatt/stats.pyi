# SPDX-License-Identifier: Apache-2.0 OR MIT
from ._native import bootstrap_interval as bootstrap_interval
from ._native import mean_interval as mean_interval
from ._native import paired_ratio as paired_ratio
from ._native import ratio as ratio

__all__ = ["bootstrap_interval", "mean_interval", "paired_ratio", "ratio"]
