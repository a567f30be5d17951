"""`python -m ckpt_conformance` is `ckpt-conformance`."""

from __future__ import annotations

import sys

from ckpt_conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
