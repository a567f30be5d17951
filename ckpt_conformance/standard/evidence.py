"""How a check says that a requirement does not hold, in numbers that a person can use."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor


class Violation(AssertionError):  # noqa: N818 - it is a finding about the candidate, not an error of ours
    """A requirement does not hold.

    Attributes:
        summary: One line: what is wrong.
        expected: What should have been seen.
        found: What was seen.
        trace: Who holds what should be gone, one hop a line; empty where that is not the question.
    """

    def __init__(self, summary: str, *, expected: str, found: str, trace: tuple[str, ...] = ()) -> None:
        super().__init__(f"{summary}: expected {expected}, found {found}")
        self.summary = summary
        self.expected = expected
        self.found = found
        self.trace = trace


def violated(summary: str, *, expected: object, found: object, trace: tuple[str, ...] = ()) -> NoReturn:
    """Report that the requirement does not hold.

    Raises:
        Violation: Always.
    """
    raise Violation(summary, expected=str(expected), found=str(found), trace=trace)


def expect_equal(summary: str, expected: object, found: object) -> None:
    """Report a violation unless the two are equal."""
    if expected != found:
        violated(summary, expected=expected, found=found)


def expect_same_tensor(what: str, expected: Tensor | None, found: Tensor | None) -> None:
    """Report a violation unless two tensors are alike: presence, shape, dtype and every bit of the values.

    NaN equals NaN: a region that yields NaN plainly may yield it under a candidate.
    """
    if expected is None or found is None:
        if (expected is None) != (found is None):
            violated(
                f"{what} is {'missing' if found is None else 'there'}",
                expected=_brief(expected),
                found=_brief(found),
            )
        return
    if expected.shape != found.shape or expected.dtype != found.dtype:
        violated(f"{what} has another form", expected=_brief(expected), found=_brief(found))
    if not _same_bits(expected, found):
        violated(
            f"{what} differs",
            expected="the plain run's values, bit by bit",
            found=describe_difference(expected, found),
        )


def within_rounding(expected: Tensor | None, found: Tensor | None) -> bool:
    """Whether two tensors differ by no more than the order of a sum does: 64 ulp of the largest element."""
    if expected is None or found is None or expected.shape != found.shape or expected.dtype != found.dtype:
        return expected is None and found is None
    if not (expected.is_floating_point() or expected.is_complex()) or expected.numel() == 0:
        return bool(torch.equal(expected, found))
    step = 64 * torch.finfo(expected.dtype).eps
    return bool((expected - found).abs().max() <= step * expected.abs().max())


def _same_bits(expected: Tensor, found: Tensor) -> bool:
    return torch.equal(
        torch.view_as_real(expected) if expected.is_complex() else expected,
        torch.view_as_real(found) if found.is_complex() else found,
    ) or bool(((expected == found) | ((expected != expected) & (found != found))).all())


def _brief(tensor: Tensor | None) -> str:
    return "none" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def describe_difference(expected: Tensor, found: Tensor) -> str:
    """How far apart two tensors of one form are: elements, largest difference, and that in ulp."""
    differs = expected != found
    count = int(differs.sum())
    wide: Any = torch.complex128 if expected.is_complex() else torch.float64
    gap = (expected.to(wide) - found.to(wide)).abs()
    where = int(torch.nan_to_num(gap, nan=torch.inf).argmax())
    line = f"{count} of {expected.numel()} elements differ, by up to {float(gap.flatten()[where]):.3g}"
    if expected.is_floating_point():
        line += f" ({_ulps(expected.flatten()[where], gap.flatten()[where])} ulp)"
    pair = expected.flatten()[where].item(), found.flatten()[where].item()
    return f"{line}: {pair[0]:.6g} became {pair[1]:.6g}"


def _ulps(value: Tensor, gap: Tensor) -> str:
    magnitude = value.abs()
    step = (torch.nextafter(magnitude, torch.full_like(magnitude, torch.inf)) - magnitude).to(torch.float64)
    return f"{float(gap) / float(step):.3g}"
