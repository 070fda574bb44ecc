"""Shared test set-up: eight CPU devices, so that sharding tests run anywhere, and a compiler in a hurry."""

import os

flags = [
    "--xla_force_host_platform_device_count=8",
    # The suite spends its time in LLVM, on programs that run once.
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
]
os.environ.setdefault("XLA_FLAGS", " ".join(flags))
