"""The guard around training loops as people write them: a plain loop, and a `transformers` model."""

from __future__ import annotations

import gc

import pytest
import torch

from ckpt_conformance.leaks import Kind, LeakError, leak_guard

LOSSES: list[torch.Tensor] = []


@pytest.fixture(autouse=True)
def _no_losses():
    LOSSES.clear()
    yield
    LOSSES.clear()
    gc.collect()


def train(step, *, keep):
    """Six steps of a loop that appends the loss tensor, or its value, to a list."""
    with leak_guard(steps=6) as steps:
        for _ in steps:
            loss = step()
            if keep:
                LOSSES.append(loss)
            del loss


def named_as_the_list_of_losses(step):
    with pytest.raises(LeakError) as raised:
        train(step, keep=True)
    (leak,) = raised.value.report.leaks
    assert (leak.kind, leak.root, leak.root_name) == (Kind.HELD, "module", __name__)
    assert leak.holder == f"{__name__}.LOSSES[2]"
    assert leak.birth.phase == "forward"
    assert leak.remedies[-1].what == f"{__name__}.LOSSES.clear()"
    assert leak.remedies[-1].freed == leak.bytes
    return leak


def plain_step():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = model(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def llama_step():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=128, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 128, (2, 32))

    def step():
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_plain_loop_that_keeps_nothing_is_no_leak():
    train(plain_step(), keep=False)


def test_a_plain_loop_that_appends_the_loss_is_named_as_such():
    assert named_as_the_list_of_losses(plain_step()).example.endswith("made by MeanBackward0")


# the newest transformers calls the checkpointing method by another name, and says so
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_six_steps_of_a_checkpointed_transformers_model_are_no_leak():
    train(llama_step(), keep=False)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_transformers_loop_that_appends_the_loss_is_named_as_such():
    assert named_as_the_list_of_losses(llama_step()).birth.module == "LlamaForCausalLM"
