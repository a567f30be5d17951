"""For the project's own tests: the repository root is importable, so that `fixtures` is."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
