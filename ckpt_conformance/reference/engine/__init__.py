"""The engine of both APIs: the original graph stays, what it saves is dropped and recomputed on demand."""

from .frame import Frame

__all__ = ["Frame"]
