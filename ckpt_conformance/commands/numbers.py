"""Numbers on a command line: argparse refuses what is none, in one line."""

from __future__ import annotations

import argparse


def whole(text: str) -> int:
    """A whole number from 1 up."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds."""
    return _above_zero(text, "seconds")


def gibibytes(text: str) -> float:
    """A number of GiB."""
    return _above_zero(text, "GiB")


def _above_zero(text: str, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of {unit} above 0")
    return number
