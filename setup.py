"""Build hook: suites and report templates live at the top of the checkout and travel inside ``tppsd_bench`` in a wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TRAVELLING = ("suites/*.toml", "reports/templates/**/*")
"""Same paths below the package as below the checkout: ``tppsd_bench.resources`` looks in both."""


class BuildWithResources(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:  # an editable install reads the checkout itself
            return
        root, package = Path(__file__).resolve().parent, Path(self.build_lib) / "tppsd_bench"
        for pattern in TRAVELLING:
            for file in root.glob(pattern):
                if file.is_file():
                    target = package / file.relative_to(root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, target)


setup(cmdclass={"build_py": BuildWithResources})
