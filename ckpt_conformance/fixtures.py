"""The pytest fixtures that other repositories use; imported in every test run, so nothing heavy up here."""

from __future__ import annotations
