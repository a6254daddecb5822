"""One stage a file: (host, request) -> result record. Nothing here prints."""
