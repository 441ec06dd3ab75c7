"""What Schemathesis has to know of extension storage beyond its description."""

import itertools
import json
import os

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

# The server is on this machine. To look for proxies and passwords takes a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None

INSTALL = os.environ["INSTALL"]

count = itertools.count()

TAGS = ("If-Match", "If-None-Match")
LINES = "application/x-ndjson"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """A body of lines is a list of what x-lines describes."""

    def rewrite(node):
        if isinstance(node, dict):
            if "x-lines" in node:
                node["schema"] = {"type": "array", "maxItems": 50, "items": node.pop("x-lines")}
                node.pop("example", None)
            for child in node.values():
                rewrite(child)

    rewrite(raw_schema["paths"])


@schemathesis.serializer(LINES)
def serialize_lines(context, value):
    if not isinstance(value, list):
        return json.dumps(value).encode()
    return b"".join(json.dumps(line).encode() + b"\n" for line in value)


@schemathesis.deserializer(LINES)
def deserialize_lines(context, response):
    return [json.loads(line) for line in response.content.splitlines() if line.strip()]


def good(case, where):
    """Whether a part of the request is as it is described."""
    return case.meta is None or not case.meta.is_negative_at(where)


@schemathesis.hook
def before_call(context, case, kwargs):
    """The token is for one install and two namespaces. Schemas are tried in one of
    their own: an active one would refuse what the description lets pass. That of
    the other lets everything pass."""
    namespace = "schemas" if "/schemas" in case.operation.path else "records"
    if good(case, ParameterLocation.PATH):
        for name, value in (("install", INSTALL), ("namespace", namespace)):
            if name in case.path_parameters:
                case.path_parameters[name] = value
    if good(case, ParameterLocation.QUERY) and case.query:
        case.query.pop("cursor", None)  # is signed
        if "wait" in case.query:
            case.query["wait"] = 0  # nobody else writes
    headers = case.headers or {}
    for name in TAGS:
        if headers.get(name) == "0":
            del headers[name]  # what boundaries are made of, when they are of something else
    if good(case, ParameterLocation.BODY):
        case.body = feasible(case.body, namespace)
    else:  # a guard that fails would hide what is wrong
        for name in TAGS:
            headers.pop(name, None)
        if good(case, ParameterLocation.PATH) and "key" in case.path_parameters:
            case.path_parameters["key"] = f"new{next(count)}"


def feasible(body, namespace):
    """A good body without what only the server's data make good, and without what
    JSON Schema has no words for."""
    if isinstance(body, list):
        return [feasible(item, namespace) for item in body]
    if isinstance(body, str):
        return body.replace("\0", "")
    if isinstance(body, float) and abs(body) < 1e-300:
        return 0
    if not isinstance(body, dict):
        return body
    body = {feasible(name, namespace): feasible(value, namespace) for name, value in body.items()}
    if "schemaVersion" in body:
        body["schemaVersion"] = 1  # the active one
    body.pop("ttlExpiresAt", None)  # a time has no bounds
    if isinstance(body.get("namespace"), str):
        body["namespace"] = namespace
    if isinstance(body.get("items"), list):  # no key twice
        body["items"] = list({item["key"]: item for item in body["items"] if isinstance(item, dict) and "key" in item}.values())
    return body
