"""Measuring without disturbing: census, trace, memory timeline, version and state ledgers. No pytest."""
