"""What operators ask of the running gateway and do to it; ``gateway.web`` gives it its routes."""
