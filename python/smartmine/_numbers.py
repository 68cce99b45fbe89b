"""Numbers from people, checked before the core sees them, so that messages name the argument."""

from __future__ import annotations

import operator
from typing import Any, Sequence

from ._core import InvalidArgument

MOST_THREADS = 1024


def whole(value: Any, name: str, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number from {least} to {most}") from None
    if not least <= number <= most:
        raise InvalidArgument(f"{name} is {number}; it must be from {least} to {most}")
    return number


def real(value: Any, name: str) -> float:
    """A number as a float; text is not taken for one. Its range is checked by the core."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # tensors of several values raise the second and third
        raise TypeError(f"{name} is {value!r}; it must be a number") from None


def threads(value: Any) -> int:
    return whole(value, "threads", 0, MOST_THREADS)


def seed(value: Any) -> int:
    return whole(value, "seed", 0, 2**64 - 1)


def neighbors(value: Any, rows: int, name: str = "k") -> int:
    if rows < 2:
        raise InvalidArgument(f"there is only {rows} row; a neighbour must be another row, so at least 2 are needed")
    number = whole(value, name, 1, 2**31 - 2)
    if number >= rows:
        raise InvalidArgument(f"{name} is {number}; there are {rows} rows, so it must be from 1 to {rows - 1}")
    return number


def one_of(value: Any, name: str, allowed: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidArgument(f"{name} is {value!r}; it must be {', '.join(allowed[:-1])} or {allowed[-1]}")
    return value
