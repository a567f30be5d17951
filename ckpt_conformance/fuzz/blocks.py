"""Regions that are modules: what they do with their weight, their buffer, their mode and their hooks."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_conformance.fuzz.values import Scope, Value

STATISTICS = ("s", "n")
"""How the names of leaves begin that a module gathers statistics in: each run of a region moves them.

A module in a region is none that a candidate is given: it is run again with the region, whoever counts.
"""


def _pairs(value: Value, expression: str) -> str:
    return f"{expression.format(f'{value.name}.reshape(-1, 2)')}.reshape({value.shape})"


USES: Mapping[str, str] = {
    "factor": "({} * self.factor).sin()",
    "mode": "({} * (2 if self.training else 3)).sin()",
    # in evaluation mode dropout gives what it is given; a hook on that would be one on the caller's tensor
    "dropout": "F.dropout({} * 1, 0.5, self.training)",
}
"""What a region may do with its module; each gives a tensor of its own."""
_USES_OF_PAIRS: Mapping[str, str] = {
    "norm": "self.norm({}.float())",
    "weight": "({} @ self.first.weight.sin() @ self.second.weight)",
    "buffer": "({} * self.buffer)",
}


def use(scope: Scope) -> None:
    """Let a region use the module that it belongs to."""
    value = scope.pick(lambda found: found.kind == "float" and found.size % 2 == 0 and found.size > 2)
    if value is None:
        return
    value.fresh = False
    name = scope.choose(("norm", *_USES_OF_PAIRS, *USES))
    scope.features.add(f"module-{name}")
    expression = USES[name].format(value.name) if name in USES else _pairs(value, _USES_OF_PAIRS[name])
    scope.bind(expression, value.shape, fresh=False, grad=value.grad)


def make(scope: Scope, number: str, *, top: bool) -> str:
    """Make the module around region `number`, perhaps in evaluation mode; gives its name."""
    scope.features.add("module")
    leaves, name = scope.leaves, f"block{number}"
    weight = leaves.leaf("w", (2, 2), grad=scope.choose((True, True, False)))
    buffer, mean = leaves.leaf("b", (2,), grad=False), leaves.leaf(STATISTICS[not top], (2,), grad=False)
    leaves.lines.append(f"{weight.name} = torch.nn.Parameter({weight.name}, {weight.grad})")
    scope.lines.append(f"{name} = Block(region{number}, {weight.name}, {buffer.name}, {mean.name})")
    if scope.choose((False, False, True)):
        scope.features.add("module-evaluates")
        scope.lines.append(f"{name}.eval()")
    return name


def look(scope: Scope, name: str) -> None:
    """Hear what a module is like after its region's forward."""
    scope.lines.append(f"hear(f'{{{name}.training}}, {{{name}.norm.num_batches_tracked.item()}} batches')()")
