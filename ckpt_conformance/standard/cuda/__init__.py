"""cuda: streams, the caching allocator, generators and modes of the device, graphs, several devices."""

from ckpt_conformance.standard.cuda import ambient, devices, memory, streams, transformer_engine

# graphs come last: a capture that goes wrong is the hardest on what runs after it
from ckpt_conformance.standard.cuda import graphs  # isort: skip

__all__ = ["ambient", "devices", "graphs", "memory", "streams", "transformer_engine"]
