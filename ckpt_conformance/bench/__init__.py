"""The benchmark: what a candidate costs in time and memory, beside the plain run and torch's in one go."""
