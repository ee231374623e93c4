"""System packages that the tests need: found, or installed where that can be done here."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence


def find_or_install(what: str, find: Callable[[], str | None], packages: Sequence[str], elsewhere: str) -> str:
    """What `find` finds. Ends the program with what to install where that cannot be done here."""
    if path := find():
        return path
    names = " ".join(packages)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(
            f"The tests need {what}. Install it first: {names} on Debian (apt-get install, as root), "
            f"{elsewhere} elsewhere."
        )
    print(f"installing {what} for the tests ...", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    for command in ([*apt, "update"], [*apt, "install", "-y", "--no-install-recommends", *packages]):
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode:
            sys.exit(f"Installing {what} failed; the reason is above. The packages are: {names}.")
    return find() or sys.exit(f"{what} was installed and is not on PATH.")
