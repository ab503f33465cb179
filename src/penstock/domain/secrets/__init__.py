"""Secret parameters: named, matched, masked, scrubbed."""
