"""The case table, a file per family of rules."""

import importlib
import pkgutil

from contract import Case

FAMILIES: dict[str, list[Case]] = {
    module.name: importlib.import_module(f"cases.{module.name}").CASES for module in pkgutil.iter_modules(__path__)
}

CASES: list[Case] = [case for cases in FAMILIES.values() for case in cases]
