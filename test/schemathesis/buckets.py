"""Rules of buckets that the description does not express."""

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

# The server is local. Looking up proxies and passwords took a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None

DATE = "Sun, 22 Nov 2026 20:15:00 GMT"

# Valid values for headers that the description does not restrict enough; None removes the header.
HEADERS = {
    "If-Modified-Since": DATE,
    "If-Unmodified-Since": DATE,
    "Content-MD5": None,
    "Object-Checksum": None,
    "Object-Roles": "f2a3f4a0-6dd6-4d9d-8a3e-3a0d1e1f7b22",
    "Object-Properties": '{"album": 7}',
}


def good(case, where):
    """Reports whether a part of the request matches the description."""
    return case.meta is None or not case.meta.is_negative_at(where)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Uses the token's account and its only bucket. New buckets get generated names."""
    if good(case, ParameterLocation.PATH):
        path = case.path_parameters or {}
        if "account" in path:
            path["account"] = "main"
        if "bucket" in path and case.method.upper() != "PUT" or "object" in path:
            path["bucket"] = "photos"
        if "object" in path:  # limited in bytes
            path["object"] = path["object"].encode(errors="replace")[:1024].decode(errors="ignore")
    if good(case, ParameterLocation.HEADER):
        for name, value in HEADERS.items():
            if case.headers and name in case.headers:
                del case.headers[name]
                if value:
                    case.headers[name] = value
    if good(case, ParameterLocation.QUERY) and case.query and str(case.query.get("metadata")).lower() == "true" and "limit" in case.query:
        case.query["limit"] = 100  # maximum with metadata
    if good(case, ParameterLocation.BODY) and isinstance(case.body, dict):
        case.body = feasible(case.body)


def feasible(body):
    """Returns a valid update within rules that JSON Schema cannot express."""
    body = dict(body)
    if isinstance(body.get("content_type"), str):
        body["content_type"] = "".join(c for c in body["content_type"] if c.isprintable()).strip() or "a/b"
    if isinstance(body.get("headers"), dict):
        body["headers"] = {"m-a": value[:1000] for value in body["headers"].values() if isinstance(value, str) and value.isprintable()}
    if "properties" in body:
        body["properties"] = {"album": 7}
    return body
