"""Shared test set-up: eight CPU devices, so that sharding tests run anywhere, and a compiler in a hurry."""

import os

import jax

flags = [
    "--xla_force_host_platform_device_count=8",
    # The suite spends its time in LLVM, on programs that run once.
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
]
if jax.__version_info__ < (0, 11):  # later ones have no other emitters
    flags.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(flags))
