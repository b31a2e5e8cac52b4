"""The front door's benchmark: see docs/front-door-performance.md."""
