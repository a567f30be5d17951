"""Who raised an error: the program, a statement in words of its own, torch, or a line of the candidate's."""

from __future__ import annotations

import dis
import os
from pathlib import Path
from types import TracebackType

import torch

from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.program import FILE

PROGRAM, STATEMENT, TORCH = "the program", "a statement", "torch"

_FUNCTIONS = frozenset({torch.nn.functional.__file__, torch.functional.__file__, torch._tensor.__file__})
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"


def raised_by(error: BaseException) -> str:
    """Who raised it.

    `PROGRAM`: a line of the program's, over something that it was given. `STATEMENT`: a `raise` or an
    `assert` elsewhere, in words of its own. `TORCH`: torch, in words that it has for many causes. Else the
    file and line on which an operation failed.
    """
    by, trace = "", error.__traceback__
    while trace is not None:
        by, trace = _by_line(error, trace, by), trace.tb_next
    return by


def _by_line(error: BaseException, trace: TracebackType, caller: str) -> str:
    code = trace.tb_frame.f_code
    # torch's functions of Python check what they are given where others do so in C++
    if code.co_filename == FILE or (caller == PROGRAM and code.co_filename in _FUNCTIONS):
        return PROGRAM
    if code.co_filename == prelude.__file__:
        # its functions read what they have saved: torch's errors there are no stumbling
        return TORCH if isinstance(error, RuntimeError) else PROGRAM
    if code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"] and str(error):
        return STATEMENT
    return (
        TORCH if code.co_filename.startswith(_TORCH) else f"{Path(code.co_filename).name}:{trace.tb_lineno}"
    )
