"""torchgpipe: outputs that are not tensors fail late or without words."""

import torch
from torchgpipe.checkpoint import checkpoint


def error(region, argument):
    try:
        outputs = checkpoint(region, argument)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        outputs[0].sum().backward()
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return None


x = torch.ones(3, requires_grad=True)
errors = {
    "a number among the outputs": error(lambda x: (x.sin(), 3), x),
    "no tensor among the outputs": error(lambda x: (), x),
    "a dict as input": error(lambda inputs: inputs["x"].sin(), {"x": x}),
}
for what, message in errors.items():
    print(f"{what}: {message}")
wrong = all(errors.values())
print("reproduced" if wrong else "not reproduced")
raise SystemExit(wrong)
