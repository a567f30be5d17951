"""The same steps in other variants, so that a leak can be laid at the checkpoint's door or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from ckpt_conformance.instruments.growth import judge_growth
from ckpt_conformance.leaks.facts import Column
from ckpt_conformance.leaks.watch import StepWatch

Variants = Mapping[str, Callable[[], object]]


def run_columns(
    variants: Variants, steps: int, warmup: int, device: torch.device | None
) -> tuple[Column, ...]:
    """Run each variant's step under a watch of its own, and tell what it left behind."""
    return tuple(_column(name, step, steps, warmup, device) for name, step in variants.items())


def _column(
    name: str, step: Callable[[], object], steps: int, warmup: int, device: torch.device | None
) -> Column:
    watch = StepWatch(device)
    watch.start()
    try:
        for number in range(steps):
            step()
            watch.observe(warming_up=number < warmup)
    except Exception as error:  # noqa: BLE001 - a variant that fails is told of, and is no leak
        return Column(name=name, problem=f"{type(error).__name__}: {error}")
    finally:
        watch.thaw()
        watch.stop()
    levels = [census.bytes for census in watch.censuses]
    growth = judge_growth(levels, warmup)
    return Column(name=name, levels=growth.levels, per_step=round(growth.per_step), trend=str(growth.trend))
