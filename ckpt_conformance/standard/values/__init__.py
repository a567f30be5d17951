"""values: outputs and gradients equal the plain run's, bit by bit."""

from ckpt_conformance.standard.values import functions, generated, inputs, outputs, sharing

__all__ = ["functions", "generated", "inputs", "outputs", "sharing"]
