"""The HTTP doors for software: what comes in is bytes, what goes out is JSON."""
