"""The claims made for zero-copy restoring and for clearing `.grad`, as measurements that anyone can repeat.

`python -m ckpt_conformance.bench.claims NAME... [--json FILE]`; most need a CUDA device.
"""
