"""For whoever runs the service: health, metrics, text log, notifications."""
