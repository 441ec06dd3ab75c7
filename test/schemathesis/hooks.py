"""Rules of extension storage that the description does not express."""

import itertools
import json
import os

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

# The server is local. Looking up proxies and passwords took a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None

INSTALL = os.environ["INSTALL"]

count = itertools.count()

TAGS = ("If-Match", "If-None-Match")
LINES = "application/x-ndjson"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Describes a body of lines as a list of x-lines."""

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
    """Reports whether a part of the request matches the description."""
    return case.meta is None or not case.meta.is_negative_at(where)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Uses the token's install and two namespaces. Schemas are tested in a separate namespace,
    because an active schema would refuse valid records. The records' schema accepts everything."""
    namespace = "schemas" if "/schemas" in case.operation.path else "records"
    if good(case, ParameterLocation.PATH):
        for name, value in (("install", INSTALL), ("namespace", namespace)):
            if name in case.path_parameters:
                case.path_parameters[name] = value
    if good(case, ParameterLocation.QUERY) and case.query:
        case.query.pop("cursor", None)  # signed
        if "wait" in case.query:
            case.query["wait"] = 0  # no other writers
    headers = case.headers or {}
    for name in TAGS:
        if headers.get(name) == "0":
            del headers[name]  # boundary tests send this in requests about something else
    if good(case, ParameterLocation.BODY):
        case.body = feasible(case.body, namespace)
    else:  # a failed guard would hide the invalid body
        for name in TAGS:
            headers.pop(name, None)
        if good(case, ParameterLocation.PATH) and "key" in case.path_parameters:
            case.path_parameters["key"] = f"new{next(count)}"


def feasible(body, namespace):
    """Returns a valid body within the server's data and rules that JSON Schema cannot express."""
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
        body["schemaVersion"] = 1  # active
    body.pop("ttlExpiresAt", None)  # times are unlimited
    if isinstance(body.get("namespace"), str):
        body["namespace"] = namespace
    if isinstance(body.get("items"), list):  # unique keys
        body["items"] = list({item["key"]: item for item in body["items"] if isinstance(item, dict) and "key" in item}.values())
    return body
