"""The web server: daphne, ending cleanly."""

import asyncio

from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server, twisted_loop


def serve(port: int, bind: str = "127.0.0.1") -> None:
    """Serve until SIGTERM or SIGINT, then return within half a second, streams and sockets open or not."""
    from console.asgi import application
    from runtime_app.transitions import epochs

    epochs.watch_at_start()

    # daphne leaves 50 places in the listen queue: a page of sockets reconnecting at once would be reset
    endpoints = [f"{each}:backlog=1024" for each in build_endpoint_description_strings(host=bind, port=port)]
    Server(
        application=application, endpoints=endpoints, signal_handlers=True, application_close_timeout=0.3, verbosity=0
    ).run()
    end_what_is_left(twisted_loop)


def end_what_is_left(loop) -> None:
    """CPython 3.11 ends in a segmentation fault if tasks of open sockets are collected at exit."""
    left = [] if loop.is_closed() else [task for task in asyncio.all_tasks(loop) if not task.done()]
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=0.3))
