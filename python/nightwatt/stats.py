# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The 95 % intervals of ``nightwatt compare``."""

from ._native import bootstrap_interval, mean_interval, paired_ratio, ratio

__all__ = ["bootstrap_interval", "mean_interval", "paired_ratio", "ratio"]
