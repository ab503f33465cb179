"""Every setting: the file of a project, the environment, workers, servers, logging."""
