"""Events of a Session and of a tenant, by cursor: a page, a long poll, Server-Sent Events, a WebSocket (R36-R38)."""

import pydantic
from ninja import Router
from pydantic import TypeAdapter

from ... import events
from ...errors import InvalidInput
from ...ids import parse_id
from .. import streaming, waiting
from . import callers, contract, documents
from .contract import answered, responses
from .queries import After, EventLimit, Wait
from .schemas import EventPage

router = Router(tags=["events"])
STREAMS = {
    "responses": {
        200: {
            "description": "A page. With a credential and `Accept: text/event-stream` a stream whose `id` is the "
            "cursor, taken up by `Last-Event-ID`; with an upgrade a WebSocket.",
        }
    }
}
LIMIT = TypeAdapter(EventLimit)
BATCH, FULL = 200, 64 * 1024  # Events, and about how many bytes of them, that a stream or socket is handed at once


@router.get("/sessions/{id}/events", auth=callers.either, response=responses(EventPage), openapi_extra=STREAMS)
def session_events(request, id: str, after: After = "", limit: EventLimit = 500, wait: Wait = ""):
    """The Events of a Session after a cursor, in order, each once. With `wait`: as soon as there is one."""
    return answered(request, documents.page(events.after(request.context, id, after or None, limit)))


@router.get("/events", auth=callers.either, response=responses(EventPage), openapi_extra=STREAMS)
def tenant_events(request, after: After = "", limit: EventLimit = 500, wait: Wait = ""):
    """The Events of the tenant after a cursor, each once; of an agent, those of its own Sessions."""
    return answered(request, documents.page(events.feed(request.context, after or None, limit)))


# ---------------------------------------------------------------- for who waits, or follows


def of_session(context, match, cursor, limit) -> tuple[events.Page, str]:
    return events.after(context, match["id"], cursor, limit), str(parse_id(match["id"]))


def of_tenant(context, match, cursor, limit) -> tuple[events.Page, str]:
    return events.feed(context, cursor, limit), str(context.tenant_id)


def looking(page_of):
    def look(context, match, query) -> waiting.Answer:
        page, topic = page_of(context, match, query.get("after") or None, _limit(query))
        body = documents.written(documents.page(page)).encode()
        headers = [("Content-Type", "application/json"), ("ETag", contract.etag(body))]
        again = streaming.HELD if page.held else waiting.AGAIN
        return waiting.Answer(200, headers, body, bool(page.events or page.gap), topic, again)

    return look


def following(page_of):
    def read(context, match, query, cursor) -> streaming.Batch:
        page, topic = page_of(context, match, cursor, BATCH)
        told, size = [], 0
        for each in page.events:
            told.append((each.cursor, documents.written(documents.event(each))))
            size += len(told[-1][1])
            if size > FULL:
                break
        cut = len(told) < len(page.events)
        cursor = told[-1][0] if cut else page.cursor
        return streaming.Batch(told, cursor, page.gap, page.more or cut, page.held, topic)

    return read


def _limit(query) -> int:
    try:
        return LIMIT.validate_python(query.get("limit", events.PAGE))
    except pydantic.ValidationError as wrong:
        raise InvalidInput("`limit` is 1 to 500.", fields={"limit": wrong.errors()[0]["msg"]}) from None


PATHS = {r"/api/v1/sessions/(?P<id>[^/]+)/events": of_session, r"/api/v1/events": of_tenant}
FEEDS = [streaming.Feed(path, "api", following(page_of), contract.told) for path, page_of in PATHS.items()]
WAITS = [waiting.Wait(path, "api", looking(page_of), contract.told) for path, page_of in PATHS.items()]
