"""The native API at /api/v1: what agents elsewhere, and other front ends of signed-in people, call."""
