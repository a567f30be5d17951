"""What a process of the suite may take before it is ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may take.

    Attributes:
        making: Seconds for making the candidate.
        requirement: Seconds for the requirement that it was at.
        memory: Bytes.
    """

    making: float
    requirement: float
    memory: int
