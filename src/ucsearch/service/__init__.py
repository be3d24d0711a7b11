"""The decision service: requests in, decisions out, nothing answered before it is on disk (extra `service`)."""
