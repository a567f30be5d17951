"""A checkpoint implementation that meets the whole standard; this folder works alone, with torch."""

from .checkpoint import checkpoint
from .discarding import CheckpointWithoutOutput
from .errors import CheckpointError
from .share import Backend, backend, share_storage

__all__ = ["Backend", "CheckpointError", "CheckpointWithoutOutput", "backend", "checkpoint", "share_storage"]
