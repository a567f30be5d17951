"""fairscale's checkpoint, and a region that gives a dict: the caller gets a tuple of its keys, the tensors are lost.

Outputs are split into tensors and others by going through them, which for a dict goes through the keys. A list comes
back as a tuple, and a region that gives None ends in an unclear error.
"""

import sys

import torch
from fairscale.nn.checkpoint.checkpoint_activations import checkpoint_wrapper


class Region(torch.nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, value):
        return self.form(value.sin())


def given(form):
    try:
        return checkpoint_wrapper(Region(form))(torch.ones(2, requires_grad=True))
    except TypeError as error:
        return f"TypeError: {error}"


keys = given(lambda result: {"hidden": result, "norm": result.norm()})
a_list = given(lambda result: [result, result.norm()])
nothing = given(lambda result: None)
print("a dict became", keys, "- a list became a", type(a_list).__name__, "- None:", nothing)

if keys == ("hidden", "norm") and isinstance(a_list, tuple) and "not iterable" in nothing:
    print("reproduced")
    sys.exit(1)
