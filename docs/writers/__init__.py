"""One module for each generated page."""
