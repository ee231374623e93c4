"""The Agent Approval Protocol, version 1: agents ask before each of their tool calls, at /api/aap.

A door with no rules of its own. An AAP request is a Run that is one `wait_approval`; consume is the dispatch intent;
an outcome is its agent's report. openapi.json beside this file is the contract, and is served.
"""
