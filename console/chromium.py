"""The browser the tests need."""

import shutil

from console import debian

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ["chromium", "fonts-liberation"]


def find() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


def find_or_install() -> str:
    """Its path. Ends the program with what to install where that cannot be done here."""
    return debian.find_or_install("Chromium (about 120 MB)", find, PACKAGES, "chromium")
