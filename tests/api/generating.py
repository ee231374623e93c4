"""Hooks of schemathesis: nobody waits long."""

import schemathesis


@schemathesis.hook
def map_query(context, query):
    long = isinstance(query, dict) and str(query.get("wait", "")).endswith(("h", "m"))
    return query | {"wait": "1s"} if long else query
