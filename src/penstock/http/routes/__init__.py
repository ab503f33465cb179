"""The routes, one file a noun: read the request, call the library, return the answer."""
