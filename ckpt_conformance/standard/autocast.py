"""autocast: the recompute runs in the precision of the forward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Thread

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, mlp, module_region, seeded_module
from ckpt_conformance.standard.compare import (
    expect_run_of_tensors_like_plain,
    expect_same_tensors,
    weighted_loss,
)
from ckpt_conformance.standard.evidence import expect_equal, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement

_DOCS = "https://docs.pytorch.org/docs/stable/amp.html"


@requirement("autocast/enabled", MUST, since="2026.12", source="NVIDIA/TransformerEngine#791")
def enabled(candidate: Candidate, lab: Lab) -> None:
    """Autocast that is on in the forward is on in the recompute, though the backward runs outside of it.

    Training loops leave the autocast block before the backward. A recompute in float32 then yields other
    activations than the ones the loss was made of, costs twice the memory, and may fail on kernels that have
    no float32 variant.

    How: keep the autocast state of the forward for each device type, and enter it around the recompute.
    """
    _expect_like_plain(candidate, lab, mlp, lambda: _autocast(lab))


@requirement("autocast/dtype", MUST, since="2026.12", source="facebookresearch/fairscale#1199")
def dtype(candidate: Candidate, lab: Lab) -> None:
    """The recompute casts to the dtype that the forward cast to, not to the device's default.

    Keeping only whether autocast was on gives float16 where bfloat16 was asked for, or the other way round:
    an overflow in the recompute that the forward never had, or gradients with fewer digits.

    How: keep the dtype with the flag.
    """
    unusual = torch.float16 if lab.device.type == "cpu" else torch.bfloat16
    _expect_like_plain(candidate, lab, mlp, lambda: _autocast(lab, dtype=unusual))


@requirement("autocast/off-in-the-forward", MUST, since="2026.12", source="NVIDIA/TransformerEngine#3284")
def off_in_the_forward(candidate: Candidate, lab: Lab) -> None:
    """Autocast that is off in the forward is off in the recompute, though the backward runs inside of it.

    Regions that need full precision stand in a disabled block within an enabled one. An implementation that
    enters the kept state only where it was on recomputes them in half precision.

    How: enter the kept state whether it is on or off.
    """
    _expect_like_plain(
        candidate, lab, mlp, lambda: _autocast(lab, enabled=False), backward_under=lambda: _autocast(lab)
    )


@requirement("autocast/disabled-inside-the-region", MUST, since="2026.12", source=_DOCS)
def disabled_inside_the_region(candidate: Candidate, lab: Lab) -> None:
    """A block inside the region that turns autocast off has its effect in the recompute too.

    Norms, softmax and losses are commonly kept in float32 by such a block. If autocast is replayed per
    operation, or by patched casts, instead of around the region, the block is lost.

    How: enter the kept state once, around the region, and let the region's own blocks nest in it.
    """
    _expect_like_plain(candidate, lab, _with_block(enabled=False), lambda: _autocast(lab))


@requirement(
    "autocast/opened-inside-the-region", MUST, since="2026.12", source="NVIDIA/TransformerEngine#3284"
)
def opened_inside_the_region(candidate: Candidate, lab: Lab) -> None:
    """A region may open autocast itself, with nothing around it.

    What is kept at the start of the forward and what holds at its end differ here. An implementation that
    reads the state after the forward, or asserts that it did not change, gets the wrong one.

    How: read the state before the region's first line.
    """
    _expect_like_plain(candidate, lab, _with_block(enabled=True), nullcontext)


@requirement("autocast/cache-flag", MUST, since="2026.12", source=_DOCS)
def cache_flag(candidate: Candidate, lab: Lab) -> None:
    """The recompute sees the forward's choice whether weight casts are cached.

    Who turns the cache off does so because weights change within the block, or because a graph is captured;
    a recompute with the cache on works with stale or foreign casts.

    How: keep the flag with the dtype.
    """
    seen: list[bool] = []

    def region(device: torch.device) -> Region:
        inner = mlp(device)

        def looks(x: Tensor) -> Tensor:
            seen.append(torch.is_autocast_cache_enabled())
            y: Tensor = inner.fn(x)
            return y

        return Region(looks, inner.args, {}, inner.parameters)

    _observe(candidate, region(lab.device), lambda: _autocast(lab, cache_enabled=False))
    expect_equal("the autocast cache flag differs between the runs", [False] * len(seen), seen)


@requirement(
    "autocast/weight-casts-cached-before", MUST, since="2026.12",
    source=("pytorch/pytorch#141896", "Lightning-AI/pytorch-lightning#19267"),
)  # fmt: skip
def weight_casts_cached_before(candidate: Candidate, lab: Lab) -> None:
    """A region whose weights were cast earlier in the same autocast block gives the plain run's gradients.

    The forward finds the casts in autocast's cache and saves nothing for them; the recompute, outside of the
    block, finds the cache cold and casts anew, so that it saves other tensors than the forward did. Shared
    weights, and modules called twice, then end in an error about nondeterminism that nobody caused.

    How: let no cast made inside the region be served from outside it, or compare what the runs saved so
    that a cast more or less does not count.
    """
    module = seeded_module(lambda: nn.Linear(8, 8), lab.device)

    def shared(device: torch.device) -> Region:
        return module_region(nn.Sequential(module, nn.GELU(), module), Lab(device).tensor(4, 8))

    def warm() -> AbstractContextManager[object]:
        return _Warmed(_autocast(lab), lambda: module(lab.tensor(4, 8, grad=False)))

    module.zero_grad()
    expected = _observe(PLAIN, shared(lab.device), warm)
    module.zero_grad()
    expect_same_tensors(expected, _observe(candidate, shared(lab.device), warm))


class _Warmed:
    """A context in which something has already run."""

    def __init__(self, context: AbstractContextManager[object], first: Callable[[], object]) -> None:
        self._context = context
        self._first = first

    def __enter__(self) -> object:
        entered = self._context.__enter__()
        self._first()
        return entered

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)  # type: ignore[arg-type]


@requirement("autocast/backward-in-another-thread", MUST, since="2026.12", source=_DOCS)
def backward_in_another_thread(candidate: Candidate, lab: Lab) -> None:
    """A backward that another thread calls recomputes with the forward's autocast.

    Autocast, grad mode and the default device belong to a thread; pipelines and CUDA backwards run in others
    than the forward. State that is looked up in the thread of the recompute is another thread's.

    How: keep the state with the use, and enter it in whatever thread the recompute runs in.
    """
    expected, found = (
        _observe(who, mlp(lab.device), lambda: _autocast(lab), in_a_thread=True) for who in (PLAIN, candidate)
    )
    expect_same_tensors(expected, found)


def _autocast(
    lab: Lab, *, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool | None = None
) -> torch.autocast:
    return torch.autocast(lab.device.type, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def _with_block(*, enabled: bool) -> Callable[[torch.device], Region]:
    """A region with an autocast block around its middle."""

    def factory(device: torch.device) -> Region:
        first, middle, last = (seeded_module(lambda: nn.Linear(8, 8), device, seed) for seed in range(3))

        def region(x: Tensor) -> Tensor:
            x = first(x).sin()
            with torch.autocast(device.type, enabled=enabled):
                x = middle(x.float()).sin()
            y: Tensor = last(x.float()).sin()
            return y

        return Region(region, (Lab(device).tensor(4, 8),), {}, dict(middle.named_parameters()))

    return factory


def _expect_like_plain(
    candidate: Candidate,
    lab: Lab,
    factory: Callable[[torch.device], Region],
    forward_under: Callable[[], AbstractContextManager[object]],
    backward_under: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    def run(who: Candidate) -> dict[str, Tensor | None]:
        return _observe(who, factory(lab.device), forward_under, backward_under)

    expect_run_of_tensors_like_plain(candidate, run)


def _observe(
    candidate: Candidate,
    region: Region,
    forward_under: Callable[[], AbstractContextManager[object]],
    backward_under: Callable[[], AbstractContextManager[object]] = nullcontext,
    *,
    in_a_thread: bool = False,
) -> dict[str, Tensor | None]:
    """The output and every gradient, the forward in one context and the backward in another."""
    with forward_under():
        output = candidate.run(region)
    loss = weighted_loss(output)
    if loss is None:
        violated("no output requires grad", expected="an output that requires grad", found="none")
    with backward_under():
        (_run_in_a_thread if in_a_thread else _run_here)(loss.backward)
    return {"the output": output, **{f"gradient of {name}": leaf.grad for name, leaf in region.leaves()}}


def _run_here(task: Callable[[], object]) -> None:
    task()


def _run_in_a_thread(task: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised again where the check can see it
            errors.append(error)

    thread = Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
