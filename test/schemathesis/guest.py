"""Rules of guests that the description does not express."""

import itertools
import os

import requests
import schemathesis
from requests.structures import CaseInsensitiveDict
from schemathesis.core.parameters import ParameterLocation

# The server is local. Looking up proxies and passwords took a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None

INTERNAL, ADMIN = os.environ["INTERNAL"], os.environ["ADMIN"]
TOKEN, EVENTS = "Bearer " + os.environ["TOKEN"], "Bearer " + os.environ["EVENTS"]

count = itertools.count()


@schemathesis.hook
def before_init_operation(context, operation):
    """Sends requests of booking sites and operators to their listeners."""
    if operation.path.startswith("/internal/"):
        operation.base_url = INTERNAL
    elif operation.path.startswith("/guest/"):
        operation.base_url = ADMIN


def good(case, where):
    """Reports whether a part of the request matches the description."""
    return case.meta is None or not case.meta.is_negative_at(where)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives each change one new idempotency key, and pushed events their own token."""
    if case.headers is None:
        case.headers = CaseInsensitiveDict()
    headers = case.headers
    if case.operation.path == "/internal/events" and headers.get("Authorization") == TOKEN:
        headers["Authorization"] = EVENTS
    if good(case, ParameterLocation.QUERY) and case.query:
        case.query.pop("cursor", None)  # opaque
        if "from" in case.query:
            case.query["from"], case.query["to"] = "2036-12-30", "2037-01-02"
    if good(case, ParameterLocation.BODY) and isinstance(case.body, dict) and "checkIn" in case.body and "adults" in case.body:
        case.body["checkIn"], case.body["checkOut"] = "2036-12-30", "2037-01-02"
    if good(case, ParameterLocation.HEADER):
        headers.pop("X-Idempotency-Key", None)
        if "Idempotency-Key" in headers or case.operation.definition.raw.get("parameters"):
            headers["Idempotency-Key"] = f'"schemathesis-{next(count)}"'
