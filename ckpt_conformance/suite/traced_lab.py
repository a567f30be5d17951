"""The lab of a run that reports: one that can say who holds what should be gone."""

from __future__ import annotations

import torch

from ckpt_conformance.instruments.trace.lines import trace_lines
from ckpt_conformance.standard.lab import Lab


def traced_lab(device: torch.device | str = "cpu") -> Lab:
    """A lab on a device, whose findings carry the trace of what a candidate kept."""
    return Lab(torch.device(device), trace_lines)
