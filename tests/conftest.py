"""Shared test set-up: eight CPU devices, so that sharding tests run anywhere."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
