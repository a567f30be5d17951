"""Can the candidate be called at all? Asked first: a wrong adapter is one line, not a hundred failures.

Only what shows before the region's function has run counts, and a result that is no tensor: all else is for
the standard to judge.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate, Style
from ckpt_conformance.regions import Region, keep_saved, mlp
from ckpt_conformance.resolve import in_one_line
from ckpt_conformance.suite.child import ChildDiedError, in_child
from ckpt_conformance.suite.limits import Limits

CALLS: Final[Mapping[Style, str]] = {
    Style.FUNCTION: "checkpoint(fn, *args)",
    Style.DISCARDING: "factory().checkpoint(fn, *args)",
    Style.WRAPPER: "wrap(module)(*args)",
    Style.CONTEXT: "with context(): fn(*args)",
}
"""How each style is called, for the reader."""

_BEYOND: Final = (RecursionError, MemoryError)
"""What says nothing about how a candidate is meant to be called."""
_FROM_MESSAGE: Final = (
    (r"process.group|torch\.distributed",
     "it wants torch.distributed: initialise it in a function `def candidate() -> Candidate` and name that"),
    (r"\b(cuda|gpu)\b", "it wants a GPU: run it where there is one, with --device cuda"),
    (r"has no attribute '(named_)?(parameters|modules|forward|training|children)'|\bnn\.Module\b",
     "it wants a module where the standard gives a function: --style wrapper"),
    (r"__init__\(\) missing", "it is made with arguments: name a function without any that makes one"),
)  # fmt: skip
"""What an error says to what it means for the adapter; the first that fits is told."""
_PLACE: Final = re.compile(r" \([^()]*, line \d+\)$")


@dataclass(frozen=True, slots=True)
class Trouble:
    """What came of a call that went wrong.

    Attributes:
        what: What happened, in a few words.
        returned: Whether a result came back, and was none.
    """

    what: str
    returned: bool = False


def smoke(candidate: Candidate, device: torch.device, limits: Limits) -> str | None:
    """Why the candidate cannot be called in its style, and what is likely wrong; None where it can.

    The candidate runs in forked children. One that crashes or hangs there is no matter of the adapter: None.

    Args:
        candidate: What to call.
        device: Where.
        limits: What a call may take: the time and memory of a requirement.
    """
    # a forked child cannot use CUDA where its parent does already
    if torch.cuda.is_initialized():
        return None
    trouble = _tried(candidate, device, limits)
    if trouble is None:
        return None
    call = CALLS[candidate.style]
    told = f"cannot be called in the {candidate.style} style, {call}: {trouble.what}"
    likely = _likely(candidate, trouble, partial(_works, candidate, device, limits))
    return f"{told}; likely {likely}" if likely else told


def _tried(candidate: Candidate, device: torch.device, limits: Limits) -> Trouble | None:
    try:
        found = in_child(partial(_call, candidate, device), limits.requirement, limits.memory)
    except ChildDiedError:
        return None
    return None if found is None else Trouble(**found)


def _call(candidate: Candidate, device: torch.device) -> dict[str, Any] | None:
    """Call the candidate once on a trivial region; the fields of a `Trouble`, or None."""
    region = mlp(device)
    entered: list[bool] = []
    results: list[Any] = []

    def fn(*args: Any, **kwargs: Any) -> Any:
        entered.append(True)
        return region.fn(*args, **kwargs)

    def consumer(output: Any) -> Any:
        results.append(output)
        return keep_saved(output)

    try:
        candidate.run(Region(fn, region.args, parameters=region.parameters), consumer)
    except _BEYOND:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        if not results:
            return None if entered else {"what": f"it raised {in_one_line(error)}"}
    if isinstance(results[0], Tensor):
        return None
    unless = "" if entered else ", and never called fn"
    return {"what": f"it gave {_named(results[0])} in place of the region's output{unless}", "returned": True}


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _works(candidate: Candidate, device: torch.device, limits: Limits, style: Style) -> bool:
    """Whether the candidate can be called in another style, with the right sum to show for it."""
    try:
        called = partial(_is_right, replace(candidate, style=style), device)
        return in_child(called, limits.requirement, limits.memory) is True
    except ChildDiedError:
        return False


def _is_right(candidate: Candidate, device: torch.device) -> bool:
    region = mlp(device)
    try:
        # as a consumer would see it; the output itself may be discarded
        return torch.equal(candidate.run(region, keep_saved), keep_saved(region.plain()))
    except Exception:  # noqa: BLE001 - it was a guess
        return False


def _likely(candidate: Candidate, trouble: Trouble, works: Callable[[Style], bool]) -> str:
    """What about the adapter is wrong, as a clause; empty where nothing is known."""
    others = [style for style in Style if style is not candidate.style and works(style)]
    if others:
        return f"it is of the {others[0]} style: --style {others[0]} works"
    if trouble.returned:
        return "a `return` is missing" if "gave None" in trouble.what else "it must return what fn returned"
    # a folder's name says nothing
    message = _PLACE.sub("", trouble.what)
    for pattern, meaning in _FROM_MESSAGE:
        if re.search(pattern, message, re.IGNORECASE):
            return meaning
    return _from_signature(candidate)


def _from_signature(candidate: Candidate) -> str:
    """What the signature of a function cannot take: the function itself first, then any number of inputs."""
    if candidate.style is not Style.FUNCTION:
        return ""
    try:
        parameters = inspect.signature(candidate.target).parameters.values()
    except (TypeError, ValueError):
        return ""
    needed = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if needed:
        return f"it needs {', '.join(needed)}: give it in a function of your own that passes fn and *args on"
    taken = [one for one in parameters if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}]
    if not any(one.kind is one.VAR_POSITIONAL for one in parameters) and len(taken) != 2:
        return "it takes no *args: the standard calls it with the function and any number of inputs"
    return ""
