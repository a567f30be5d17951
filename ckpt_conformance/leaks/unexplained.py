"""Levels that grow though no tensor made in the steps stands for it: bytes without an object."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_conformance.instruments.growth import Growth
from ckpt_conformance.instruments.trace.fingerprint import digest
from ckpt_conformance.instruments.trace.roots import RootKind
from ckpt_conformance.leaks.model import Kind, Leak

_LEAST = 512
"""The smallest block that the caching allocator gives out."""


def unexplained(growth: Mapping[str, Growth], device: str, *, found: bool) -> tuple[Leak, ...]:
    """The leak that no object stands for, if there is one.

    Args:
        growth: Each quantity's series and verdict.
        device: The device counted, or `all`.
        found: Whether leaks with objects were found; then only what the allocator has beyond them counts.
    """
    allocated, seen = growth.get("allocated"), growth["bytes"].per_step
    if allocated is not None and allocated.leaks and allocated.per_step - seen >= _LEAST:
        return (_leak("allocated", allocated, device, allocated.per_step - seen),)
    growing = [(name, one) for name, one in growth.items() if one.leaks]
    if found or not growing:
        return ()
    name, worst = growing[0]
    return (_leak(name, worst, device, worst.per_step),)


def _leak(name: str, growth: Growth, device: str, per_step: float) -> Leak:
    amount = f"{size_class(per_step)} a step, {growth.trend}"
    where = device.partition(":")[0]
    counted = len(growth.levels) - growth.warmup
    return Leak(
        kind=Kind.NO_OBJECT,
        fingerprint=digest(Kind.NO_OBJECT, f"{where} {name} {amount}"),
        root=RootKind.NATIVE,
        root_name="",
        holder=f"{name.replace('_', ' ')} on {where}: {amount}",
        trace="",
        bytes=round(per_step * counted) if name in _BYTES else 0,
    )


_BYTES = ("bytes", "grad_bytes", "allocated")


def size_class(amount: float) -> str:
    """The powers of two that an amount is between: the same for small differences between machines."""
    lower = 1 << max(0, round(amount).bit_length() - 1)
    return f"{lower} to {2 * lower}"
