"""The browser the tests need: found, or installed where that can be done."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ["chromium", "fonts-liberation"]


def find() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


def find_or_install() -> str:
    """Its path. Ends the program with what to install where that cannot be done here."""
    if path := find():
        return path
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(
            f"The tests need Chromium. Install it first: {' '.join(PACKAGES)} on Debian (apt-get install, as root), "
            "chromium elsewhere."
        )
    print("installing Chromium for the browser tests (about 120 MB) ...", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    for command in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", *PACKAGES]):
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"Installing Chromium failed; the reason is above. The packages are {' '.join(PACKAGES)}.")
    return find() or sys.exit(f"Chromium was installed but none of {', '.join(NAMES)} is on PATH.")
