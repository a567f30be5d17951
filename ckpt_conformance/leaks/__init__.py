"""The leak guard for other people's training steps."""

from ckpt_conformance.leaks.guard import LeakError, leak_guard
from ckpt_conformance.leaks.model import Kind, Leak, LeakReport, Status

__all__ = ["Kind", "Leak", "LeakError", "LeakReport", "Status", "leak_guard"]
