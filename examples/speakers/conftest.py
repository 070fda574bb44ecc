"""Eight CPU devices for the tests, also where they run without those of the library."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
