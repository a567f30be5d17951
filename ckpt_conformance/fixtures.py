"""The pytest fixtures that other repositories use; imported in every test run, so nothing heavy up here."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ckpt_conformance.leaks import leak_guard


@pytest.fixture
def ckpt_leaks(pytestconfig: pytest.Config) -> Callable[..., leak_guard]:
    """Guard a training loop of one's own.

    `with ckpt_leaks(steps=6, warmup=2) as steps:`, and in it the loop over the steps. It takes what
    `leak_guard` takes, and raises what it raises. The baseline is the file that the setting
    `ckpt_leaks_baseline` names, relative to the root directory, unless one is given.
    """
    from ckpt_conformance.leaks import leak_guard

    return functools.partial(leak_guard, baseline=baseline_of(pytestconfig))


def baseline_of(config: pytest.Config) -> Path | None:
    """The file of known leaks that the settings name."""
    named = config.getini("ckpt_leaks_baseline")
    return config.rootpath / named if named else None
