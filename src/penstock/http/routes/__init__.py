"""The routes, one file a noun: request, library call, shape."""
