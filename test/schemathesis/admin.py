"""What Schemathesis has to know of the admin listener beyond its descriptions."""

import requests

# The server is on this machine. To look for proxies and passwords takes a tenth of the time.
requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
requests.sessions.get_netrc_auth = lambda *args, **kwargs: None
