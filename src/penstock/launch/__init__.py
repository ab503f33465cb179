"""Where the parts are put together: server, worker process, one pass, embedded worker."""
