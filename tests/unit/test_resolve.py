"""A candidate is what its name leads to, wrapped by looking at it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from torch import nn

from ckpt_conformance.candidate import Candidate, CandidateError, Style
from ckpt_conformance.catalog import Entry
from ckpt_conformance.resolve import as_candidate, resolve


class Discarding:
    def checkpoint(self, fn: Any, *args: Any) -> Any:
        return fn(*args)

    def discard_output_and_register_recompute(self, hook_tensor: Any) -> None:
        pass


class Wrapped(nn.Module):
    pass


@contextlib.contextmanager
def context() -> Iterator[None]:
    yield


def function(fn: Any, *args: Any) -> Any:
    return fn(*args)


def made() -> Candidate:
    return Candidate.from_function(function, name="made")


@pytest.mark.parametrize(
    ("found", "style"),
    [
        (function, Style.FUNCTION),
        (Discarding, Style.DISCARDING),
        (Wrapped, Style.WRAPPER),
        (context, Style.CONTEXT),
        (contextlib.nullcontext, Style.CONTEXT),
    ],
)
def test_the_style_is_seen_by_looking(found: Any, style: Style) -> None:
    candidate = as_candidate(found, "it")
    assert (candidate.style, candidate.target, candidate.name) == (style, found, "it")


def test_an_object_of_the_discarding_style_is_copied_for_each_use() -> None:
    candidate = as_candidate(Discarding(), "it")
    assert candidate.style is Style.DISCARDING
    assert candidate.target() is not candidate.target()


def test_a_function_annotated_to_give_a_candidate_is_called() -> None:
    assert as_candidate(made, "it").name == "made"


def test_a_style_that_is_named_wins() -> None:
    assert as_candidate(function, "it", Style.WRAPPER).style is Style.WRAPPER


def test_a_dotted_attribute_is_followed() -> None:
    candidate = resolve("torch:utils.checkpoint.checkpoint")
    assert (candidate.name, candidate.style) == ("torch:utils.checkpoint.checkpoint", Style.FUNCTION)


def test_an_entry_names_what_to_install() -> None:
    entry = Entry("odd", "odd", "ODD", "no-such-distribution-at-all", "no-such-distribution-at-all[extra]")
    assert entry.missing == "python -m pip install no-such-distribution-at-all[extra]"
    assert Entry("torch", "torch_checkpoint", "REENTRANT", "torch").missing == ""


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(CandidateError, match="did you mean torch-nonreentrant"):
        resolve("torch-nonreentrent")
