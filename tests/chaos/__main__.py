import sys

from console.processes import exit_on_sigterm
from tests.chaos.cli import main

exit_on_sigterm()
main(sys.argv[1:])
