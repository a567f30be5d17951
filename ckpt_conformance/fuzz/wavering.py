"""A region that fails or does something else in its second run, whose backward the step survives."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_conformance.fuzz.values import Scope

_SECOND: Mapping[str, str] = {
    "raises": "raise KeyError('second run')",
    "dtype": "y = (y * 2).double()",
    "shape": "y = torch.cat([y * 2, y])",
    "fewer": "return x.sin().double()",
    "strides": "return (y * y).t().contiguous().t()",
}
"""What the second run does, by name."""


def begin(scope: Scope) -> None:
    """Run the region, before the others; the plain run sees its first run only."""
    if scope.leaves.mode or not scope.choose((False,) * 19 + (True,)):
        return
    name = scope.choose(tuple(_SECOND))
    scope.features.update((WAVERS, f"second-run-{name}", "noise"))
    start = scope.leaves.leaf("x", (4, 6)).name
    scope.lines += [
        "runs = []",
        "def wavering(x):",
        "    y = (x * torch.rand_like(x)).sin().exp()",
        "    note(y)",
        "    runs.append(0)",
        f"    if len(runs) > 1: {_SECOND[name]}",
        "    return y * y",
        f"begun = {start}.detach().requires_grad_()",
        # of the CPU and of every GPU: the run is to draw the same numbers
        "with torch.random.fork_rng():",
        "    expected = torch.autograd.grad(wavering(begun).sin().sum(), begun)[0]",
        "runs.clear()",
        "wavers = run(wavering, (begun,), {}, lambda out: meet(out.sin()))",
    ]


def end(scope: Scope) -> list[str]:
    """The lines that go back through it after the others' forward: the right gradient, or an error.

    An error of the region's own has to come through as it is; what differs is told in any words.
    """
    if WAVERS not in scope.features:
        return []
    own = "isinstance(error, KeyError)" if "second-run-raises" in scope.features else "True"
    return [
        "right = True",
        "try:",
        "    wavers.sum().backward()",
        "    right = torch.equal(begun.grad, expected)",
        "except Exception as error:",
        f"    right = {own}",
        "hear(f'the right gradient or an error: {right}')()",
        "result.wavers = wavers  # its graph lives as long as the result's",
    ]


WAVERS = "second-run-differs"
"""The feature of programs with such a region."""

WRONG = "the right gradient or an error: False"
"""What is heard where there was neither; in a plain run it says that shrinking has gone too far."""
