"""What a release comes with besides its wheel: a list of what is in it, and a look for known vulnerabilities."""
