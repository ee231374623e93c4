"""Django's admin for the installation's superusers: every tenant.

What an installation is set up with can be edited, and is checked in words. What happened can be read and searched, and
nothing else: no way leads round `transitions` (B159), and what history names is not deleted (B161). No role of a tenant
opens this door, and whoever has it open has no role in any tenant by that.
"""

from . import credentials, history, setup
from .history import Kept
from .setup import site

__all__ = ["Kept", "credentials", "history", "setup", "site"]
