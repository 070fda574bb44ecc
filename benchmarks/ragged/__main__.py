"""Runs the contest and prints its tables; see the package's docstring."""

import argparse
import os
from collections.abc import Callable

import benchmarks.ragged as package
from benchmarks.ragged import contest, data, peers
from benchmarks.ragged.contestants import Contestant
from benchmarks.ragged.programs import Program, programs

BUCKETS, MEASURED, ROUNDS = 8, 3, 10  # MEASURED: lengths for which one compile per length is measured


def available() -> list[Callable[[Program], list[Contestant]]]:
    """The peers that are installed."""
    found = []
    for name, peer in {"flax": peers.in_flax, "torch": peers.in_torch}.items():
        try:
            __import__(name)
            found.append(peer)
        except ImportError:
            print(f"{name}: not installed (pip install 'maskax[bench]')")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=package.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [program.name for program in programs()]
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const="quick", help="less of everything")
    size.add_argument("--one-batch", action="store_const", dest="size", const="batch", help="one large batch")
    parser.set_defaults(size="batches")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--programs", nargs="*", choices=names, default=names)
    parser.add_argument("--lengths", nargs="*", choices=data.LENGTHS)
    args = parser.parse_args()
    count, measured, rounds = (3, 2, 4) if args.size == "quick" else (BUCKETS, MEASURED, ROUNDS)
    kinds = args.lengths or (["skewed", "equal"] if args.size == "quick" else data.LENGTHS)
    others = available()
    for program in programs(args.size):
        if program.name in args.programs:
            buckets = data.buckets(program, count)
            print(f"\n{program.name}: {program.rows} rows, buckets {buckets.sizes}")
            for kind in kinds:
                rows = data.make(program, kind)
                outcomes = contest.hold(program, rows, buckets, others, args.rounds or rounds, measured)
                contest.show(program, kind, rows, outcomes)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's idle threads must not take XLA's cores
    main()
