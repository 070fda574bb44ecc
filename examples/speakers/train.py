"""Trains a model to recognise nine speakers, on one device, on several, or in several processes.

Run it with ``python examples/speakers/train.py``; ``--devices 8`` and ``--processes 2`` give the same numbers.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import jax
import speakers
import vowels


def parse_args(args: list[str] | None = None) -> argparse.Namespace:
    """Reads the options of the command line."""
    parser = argparse.ArgumentParser(
        description="Trains a model to recognise nine speakers.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    for field in dataclasses.fields(speakers.Config):
        parser.add_argument(f"--{field.name}", default=field.default, type=field.type, help=field.metadata["help"])
    parser.add_argument("--synthetic", action="store_true", help="train on 100 made-up series, for a quick look")
    parser.add_argument("--workdir", type=pathlib.Path, default="runs/speakers", help="directory of metrics and curves")
    parser.add_argument("--devices", type=int, default=1, help="CPU devices of a process, over which rows are sharded")
    parser.add_argument("--processes", type=int, default=1, help="processes, started here, which share the rows")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--coordinator", help=argparse.SUPPRESS)
    return parser.parse_args(args)


@contextlib.contextmanager
def joined(processes: int, process: int | None, coordinator: str | None) -> Iterator[None]:
    """Joins the processes of a run; the first one starts the others. On a cluster its scheduler starts them all."""
    others = []
    if process is None or coordinator is None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            process, coordinator = 0, f"127.0.0.1:{free.getsockname()[1]}"
        command = [sys.executable, *sys.argv, "--coordinator", coordinator, "--process"]
        others = [subprocess.Popen([*command, str(other)]) for other in range(1, processes)]
    jax.distributed.initialize(coordinator, processes, process)
    yield
    jax.distributed.shutdown()  # when all are done
    for other in others:
        other.wait()


def run(args: argparse.Namespace) -> None:
    """Trains on all devices of all processes; the first process writes what came of it."""
    config = speakers.Config(**{field.name: getattr(args, field.name) for field in dataclasses.fields(speakers.Config)})
    rows, test_rows = (vowels.synthetic(70), vowels.synthetic(30)) if args.synthetic else vowels.load()
    start = time.monotonic()
    _, metrics = speakers.train(config, rows, test_rows, jax.make_mesh((jax.device_count(),), ("rows",)))
    if jax.process_index() > 0:
        return
    args.workdir.mkdir(parents=True, exist_ok=True)
    (args.workdir / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics))
    speakers.plot(args.workdir / "curves.png", metrics)
    devices = f"{jax.device_count()} device(s), {jax.process_count()} process(es)"
    print(f"trained in {time.monotonic() - start:.0f} s on {devices}; metrics and curves: {args.workdir}")
    for record in metrics[-3:]:
        print("epoch {epoch}: loss {loss:.5f}, accuracy {accuracy:.1%}".format(**record))
    print(f"accuracy: {metrics[-1]['accuracy']:.1%} of {len(test_rows)} test utterances right")


def main() -> None:
    args = parse_args()
    jax.config.update("jax_num_cpu_devices", args.devices)
    alone = args.processes == 1
    with contextlib.nullcontext() if alone else joined(args.processes, args.process, args.coordinator):
        run(args)


if __name__ == "__main__":
    main()
