"""What Schemathesis has to know of the admin listener beyond its descriptions."""

import itertools
import json
import os

import requests
import schemathesis

# The server is on this machine. To look for proxies and passwords takes a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None

count = itertools.count()


@schemathesis.serializer("application/x-ndjson", "application/schema+json")
def serialize_file(context, value):
    """A file is what is sent."""
    if isinstance(value, bytes):
        return value
    return value.encode(errors="replace") if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Storage nodes are in a folder of their own."""
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        case.body = {**case.body, "url": f"file://{os.environ['NODES']}/{next(count)}"}
