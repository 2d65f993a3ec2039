"""Property tests on machines that are busy with something else, too; HYPOTHESIS_EXAMPLES=5000 digs deeper."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "100")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")
