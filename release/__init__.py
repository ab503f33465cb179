"""What a release comes with, next to its wheel: a list of what is in it, and a look for known vulnerabilities."""
