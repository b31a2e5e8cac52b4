# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Arguments, checked by name before the native half has them."""

import math
import operator
from collections.abc import Mapping

from ._errors import UsageError

U32_MAX = (1 << 32) - 1
I32_MAX = (1 << 31) - 1


def text(**named):
    """Each is text, or ``None``."""
    for name, value in named.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"`{name}` is not text: {value!r}")


def flags(**named):
    """Each is ``True`` or ``False``."""
    for name, value in named.items():
        if not isinstance(value, bool):
            raise UsageError(f"`{name}` is not True or False: {value!r}")


def whole(name, value, least, most):
    """A whole number in these bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"`{name}` is not a whole number: {value!r}") from None
    if not least <= number <= most:
        raise UsageError(f"`{name}` cannot be {number}", hint=f"write a number from {least} to {most}")
    return number


def finite(name, value):
    """A number, and neither NaN nor infinite."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"`{name}` is not a number: {value!r}") from None
    if not math.isfinite(number):
        raise UsageError(f"`{name}` cannot be {number}", hint="write a finite number")
    return number


def _below(at, key):
    if not isinstance(key, str):
        raise UsageError(f"a key of `{at}` is not text: {key!r}")
    return f"{at}.{key}"


def plain(value, at):
    """A value as JSON has it: numpy's numbers become Python's. ``at`` names it in errors."""
    if isinstance(value, Mapping):
        return {key: plain(one, _below(at, key)) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, at) for one in value]
    if isinstance(value, float):
        return finite(at, value)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    # Arrays have `tolist` too, and numbers of numpy are arrays without dimensions.
    for name in ("item", "tolist"):
        try:
            other = getattr(value, name)()
        except (AttributeError, TypeError, ValueError):
            continue
        if type(other) is not type(value):
            return plain(other, at)
    raise UsageError(
        f"`{at}` cannot be of the type {type(value).__name__}: {value!r}",
        hint="write a number, text, True or False, or a list or dict of them",
    )
