"""errors: what a region raises arrives unchanged, the next run is right, and misuse is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, mlp
from ckpt_conformance.standard.compare import CLEAR_ERRORS, expect_like_plain, weighted_loss
from ckpt_conformance.standard.evidence import expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import DISCARDING, MUST, RECOMPUTING, SHOULD, requirement

_PUSHED = "megatron-core 0.19.2, CheckpointWithoutOutput on the CPU"


class SimulatedError(Exception):
    """What a region of the checks raises; carries data, as an application's errors do."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"simulated {code}: {detail}")
        self.code = code


@requirement("errors/exception-of-the-forward", MUST, since="2026.12", source="huggingface/trl#6659")
def exception_of_the_forward(candidate: Candidate, lab: Lab) -> None:
    """An exception that the region raises in the forward reaches the caller as the very same object.

    Callers tell errors apart by type, message and attributes: out of memory is retried with a smaller batch,
    an interrupt ends the run. One that is wrapped, or made anew from its text, is dealt with by nobody.

    How: let it pass; clean up in `finally` blocks and context managers.
    """
    for error in (SimulatedError(7, "in the forward"), KeyboardInterrupt("by the user")):
        raised = _caught(lambda error=error: candidate.run(_raising(lab, error, at_run=1)))  # type: ignore[misc]
        _expect_the_same("in the forward", error, raised)


@requirement("errors/exception-of-the-recompute", MUST, since="2026.12", source="huggingface/trl#6659")
def exception_of_the_recompute(candidate: Candidate, lab: Lab) -> None:
    """An exception that the region raises in the recompute reaches the caller of backward unchanged.

    The recompute is where memory is tightest. An implementation that takes any exception for its own signal
    to stop early, or turns it into a report about nondeterminism, hides what happened, or goes on with
    gradients that are made of half a region.

    How: end an early stop by an exception class of your own, and catch that class alone.
    """
    error = SimulatedError(8, "in the recompute")
    region = _raising(lab, error, at_run=2)
    loss = _loss_of(candidate, region)
    raised = _caught(loss.backward)
    if _runs(region) > 1:
        _expect_the_same("in the recompute", error, raised)


@requirement("errors/next-run-after-a-failed-forward", MUST, since="2026.12", source="huggingface/trl#6659")
def next_run_after_a_failed_forward(candidate: Candidate, lab: Lab) -> None:
    """After a region has raised in the forward, the next region is right.

    A flag that says that a region is running, or a list of unfinished regions, is left by the exception. The
    next region is then taken for a nested one, or not checkpointed at all, far from the error.

    How: reset what is global in a `finally`; better, keep nothing global.
    """
    error = SimulatedError(9, "in the forward")
    _caught(lambda: candidate.run(_raising(lab, error, at_run=1)))
    expect_like_plain(candidate, lab, mlp)


@requirement(
    "errors/other-regions-of-a-failed-backward", MUST, since="2026.12", source="huggingface/trl#6659"
)  # fmt: skip
def other_regions_of_a_failed_backward(candidate: Candidate, lab: Lab) -> None:
    """A region whose forward ran before another one's recompute failed still gives right gradients.

    With several micro-batches in flight, one whose recompute raises is dropped and the others go on. State
    that is shared between uses (a queue of recomputes, one store for all) is one entry out of step by then.

    How: keep what a use needs with the use.
    """
    expected, kept = mlp(lab.device), mlp(lab.device)
    _loss_of(PLAIN, expected).backward()
    loss = _loss_of(candidate, kept)
    failing = _loss_of(candidate, _raising(lab, SimulatedError(11, "in the recompute"), at_run=2))
    _caught(failing.backward)
    loss.backward()
    for (name, leaf), (_, found) in zip(expected.leaves(), kept.leaves(), strict=True):
        expect_same_tensor(f"gradient of {name}", leaf.grad, found.grad)


@requirement(
    "errors/mismatch-names-the-region", SHOULD, since="2026.12", source="pytorch/pytorch#105031",
    styles=RECOMPUTING,
)  # fmt: skip
def mismatch_names_the_region(candidate: Candidate, lab: Lab) -> None:
    """An error about a recompute that differs from the forward names the region's function.

    A model has a hundred regions. "A different number of tensors was saved" sends its author searching; the
    function's name sends them to the line.

    How: keep the function's `__qualname__` with the use and put it into the message.
    """
    runs: list[int] = []

    def changes_its_mind(x: Tensor) -> Tensor:
        runs.append(1)
        return x.sin().exp().tanh() if len(runs) == 1 else x[:2].sin().exp().tanh()

    loss = _loss_of(candidate, Region(changes_its_mind, (lab.tensor(4, 8),)))
    raised = _caught(loss.backward)
    if raised is not None and "changes_its_mind" not in _everything_said(raised):
        violated(
            "the error does not say which region it is about",
            expected="a message that contains 'changes_its_mind'",
            found=" ".join(str(raised).split())[:300],
        )


@requirement("errors/nothing-needs-grad", MUST, since="2026.12", source="pytorch/pytorch#33962")
def nothing_needs_grad(candidate: Candidate, lab: Lab) -> None:
    """A region in which nothing needs a gradient runs, gives its value, and raises nothing.

    Frozen towers and first layers on integer data are checkpointed along with the rest. An implementation
    that needs something to differentiate raises there, in a model that trains well without it.

    How: nothing special; do not insist on an input, or an output, that needs a gradient.
    """
    weights = lab.tensor(8, 8, grad=False)
    expected, found = (
        who.run(Region(lambda x: (x @ weights).tanh(), (lab.tensor(4, 8, grad=False),)), _detached)
        for who in (PLAIN, candidate)
    )
    expect_same_tensor("the output", expected, found)


def _detached(output: Tensor) -> Tensor:
    return output.detach().clone()


@requirement("errors/discard-twice", MUST, since="2026.12", source=_PUSHED, styles=DISCARDING)
def discard_twice(candidate: Candidate, lab: Lab) -> None:
    """Discarding a second time is refused by a clear error, or changes nothing.

    Two hooks then restore the same output: the second one recomputes for nothing at best, and puts a second
    memory under views that were read already at worst.

    How: remember that the output was discarded, and raise the second time.
    """
    x, used = lab.tensor(4, 8), lab.tensor(4, 8)
    x.sin().exp().sin().sum().backward()
    use = candidate.target()
    result = use.checkpoint(lambda x: x.sin().exp(), used).sin()
    use.discard_output_and_register_recompute(result)
    _refused_or_ignored(lambda: use.discard_output_and_register_recompute(result))
    result.sum().backward()
    expect_same_tensor("gradient of the input", x.grad, used.grad)


@requirement(
    "errors/discard-before-checkpoint", SHOULD, since="2026.12", source=_PUSHED,
    styles=DISCARDING,
)  # fmt: skip
def discard_before_checkpoint(candidate: Candidate, lab: Lab) -> None:
    """Discarding before anything was checkpointed raises a clear error, or does nothing.

    It is a slip of the pen in a module with several regions. "'NoneType' object is not iterable" from inside
    the implementation does not say so.

    How: keep which step comes next, and say what is missing.
    """
    use = candidate.target()
    hook_tensor = lab.tensor(3).sin()
    _refused_or_ignored(lambda: use.discard_output_and_register_recompute(hook_tensor))


def _refused_or_ignored(attempt: Callable[[], object]) -> None:
    """Report an error that does not say what was wrong about the call."""
    raised = _caught(attempt)
    if raised is None:
        return
    if not isinstance(raised, CLEAR_ERRORS) or "NoneType" in str(raised):
        violated("the misuse is not refused in words", expected="a clear error", found=f"{raised!r:.300}")


def _caught(attempt: Callable[[], Any]) -> BaseException | None:
    try:
        attempt()
    except BaseException as error:  # noqa: BLE001 - which one it is, is the question
        return error
    return None


def _expect_the_same(where: str, error: BaseException, raised: BaseException | None) -> None:
    if raised is not error:
        violated(
            f"the exception that the region raised {where} did not arrive unchanged",
            expected=f"{error!r}, the same object",
            found="no exception" if raised is None else f"{raised!r:.300}",
        )


def _everything_said(error: BaseException) -> str:
    said = [str(error), *getattr(error, "__notes__", ())]
    links = (error.__cause__, None if error.__suppress_context__ else error.__context__)
    return "\n".join([*said, *(str(link) for link in links if link is not None)])


def _raising(lab: Lab, error: BaseException, *, at_run: int) -> Region:
    """A region that raises in its middle when it runs for the given time."""
    runs: list[int] = []

    def raises(x: Tensor) -> Tensor:
        runs.append(1)
        y = x.sin()
        if len(runs) == at_run:
            raise error
        return y.exp().tanh()

    raises.runs = runs  # type: ignore[attr-defined]
    return Region(raises, (lab.tensor(4, 8),))


def _runs(region: Region) -> int:
    return len(region.fn.runs)  # type: ignore[attr-defined]


def _loss_of(candidate: Candidate, region: Region) -> Tensor:
    loss = weighted_loss(candidate.run(region))
    if loss is None:
        violated("no output requires grad", expected="an output that requires grad", found="none")
    return loss
