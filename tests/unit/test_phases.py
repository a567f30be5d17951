import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.instruments.phases import Phase, census_by_phase, engine_phase


def test_the_phases_of_two_steps_are_told_in_order():
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with census_by_phase() as log:
        for _ in range(2):
            checkpoint(model, torch.ones(2, 8), use_reentrant=False).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            log.end_of(Phase.BETWEEN)
    one = [Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD, Phase.OPTIMIZER, Phase.BETWEEN]
    assert [phase for _, phase, _ in log.entries] == one + one
    assert log.at(1, Phase.BACKWARD).grad_bytes - log.at(1, Phase.BETWEEN).grad_bytes == 4 * (64 + 8)
    assert log.at(1, Phase.BETWEEN).bytes == log.at(2, Phase.BETWEEN).bytes


def test_a_region_knows_whether_it_is_recomputed():
    seen = []

    def region(x):
        seen.append(engine_phase())
        return x.exp()

    output = checkpoint(region, torch.ones(2, requires_grad=True), use_reentrant=False)
    output.register_hook(lambda _: seen.append(engine_phase()))
    output.sum().backward()
    assert seen == [Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE]


def test_a_phase_that_was_not_seen_is_an_error():
    with census_by_phase() as log:
        pass
    with pytest.raises(KeyError, match="optimizer in step 1"):
        log.at(1, Phase.OPTIMIZER)
    assert torch.Tensor.backward.__qualname__ == "Tensor.backward"
