"""Who raised an error is read off its traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.program import FILE
from ckpt_conformance.fuzz.raised import PROGRAM, STATEMENT, TORCH, raised_by

BESIDE_TORCH = str(Path(torch.__file__).parent) + "gpipe/checkpoint.py"
"""Where another package lies whose name begins like torch's."""


def _from(file: str, source: str) -> Callable[[], object]:
    made = compile(source, file, "exec")
    return lambda: exec(made, {"torch": torch, "meet": prelude.meet, "Knows": prelude.Knows})


def _raised(act: Callable[[], object]) -> Exception:
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("act", "by"),
    [
        (_from(FILE, "[][0]"), PROGRAM),
        (_from(FILE, "torch.nn.functional.dropout(torch.ones(1), 7)"), PROGRAM),
        (_from(FILE, "torch.split(None, 2)"), PROGRAM),
        (_from(FILE, "meet(None)"), PROGRAM),
        (_from("candidate.py", "raise ValueError('no')"), STATEMENT),
        (_from("candidate.py", "\nraise ValueError"), "candidate.py:2"),
        (_from("candidate.py", "assert False"), "candidate.py:1"),
        (_from("candidate.py", "assert False, 'no'"), STATEMENT),
        (_from(BESIDE_TORCH, "[][0]"), "checkpoint.py:1"),
        (_from("candidate.py", "torch.ones(2).backward()"), TORCH),
    ],
)
def test_who_raised(act, by):
    assert raised_by(_raised(act)) == by


def test_what_torch_says_of_what_a_function_has_saved_is_torchs():
    leaf = torch.ones(2, requires_grad=True)
    result = prelude.SaveViews.apply(leaf * 2).sum()
    result.backward()
    with pytest.raises(RuntimeError, match="second time") as caught:
        result.backward()
    assert raised_by(caught.value) == TORCH
