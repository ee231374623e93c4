import sys

from tests.chaos.cli import main

main(sys.argv[1:])
