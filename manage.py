#!/usr/bin/env python3
"""Django's manage.py, for tools that look for it: ./run manage is the same with .venv made first."""

import sys

from console.cli import main

if __name__ == "__main__":
    main(["manage", *sys.argv[1:]])
