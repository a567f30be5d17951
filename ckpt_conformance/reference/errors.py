"""The one error that this package raises of its own accord."""

from __future__ import annotations


class CheckpointError(RuntimeError):
    """What was asked for could only have ended in wrong values, a crash or a leak; nothing was damaged."""
