"""`python -m examples.harbor --port N --log FILE`: Harbor in its own process, until SIGTERM or Ctrl-C."""

import argparse
import signal
import threading
from pathlib import Path

from .provider import Harbor


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.harbor", description="A pretend deployment provider.")
    parser.add_argument("--port", type=int, default=8300, help="on 127.0.0.1; 0 picks a free one (default 8300)")
    parser.add_argument("--log", type=Path, required=True, help="its log, kept between starts")
    chosen = parser.parse_args()
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ended.set())
    harbor = Harbor(chosen.port, chosen.log)
    threading.Thread(target=harbor.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    print(f"Harbor listens on {harbor.url}", flush=True)
    ended.wait()
    harbor.stop()


if __name__ == "__main__":
    main()
