"""Rules of the admin listener that its descriptions do not express."""

import itertools
import json
import os

import requests
import schemathesis

# The server is local. Looking up proxies and passwords took a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None

count = itertools.count()


@schemathesis.serializer("application/x-ndjson", "application/schema+json")
def serialize_file(context, value):
    """Sends files unchanged."""
    if isinstance(value, bytes):
        return value
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Puts each storage node in its own folder."""
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        case.body = {**case.body, "url": f"file://{os.environ['NODES']}/{next(count)}"}
