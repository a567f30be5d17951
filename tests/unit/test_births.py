"""Where a tensor was born."""

from __future__ import annotations

import _thread
import time

import torch

from ckpt_conformance.leaks.births import BirthLog


def test_a_birth_in_a_thread_without_any_caller_is_noted() -> None:
    # as in the autograd thread of a CUDA device, which calls Python with an empty stack
    log, tensor = BirthLog(), torch.ones(3)
    _thread.start_new_thread(log.note, (1, "aten.ones", tensor))
    deadline = time.monotonic() + 30
    while (birth := log.of(tensor)) is None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert birth is not None
    assert (birth.step, birth.operation, birth.stack) == (1, "aten.ones", ())
