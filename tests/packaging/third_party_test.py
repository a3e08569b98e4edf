"""Checks that scripts/third_party.py lists everything that is built with or bundled."""

import json
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/third_party.py"


def run(*words):
    return subprocess.run([SCRIPT, *words], check=True, capture_output=True, text=True).stdout


class ThirdParty(unittest.TestCase):
    def test_sbom_has_every_library(self):
        build = re.search(r"^    build\) packages\+=\((.*?)\) ;;", (ROOT / "scripts/install-packages.sh").read_text(), re.M | re.S)[1]
        libraries = {name for name in build.split() if name.endswith("-dev")} - {"ocl-icd-opencl-dev"}
        components = {component["name"]: component for component in json.loads(run("sbom"))["components"]}
        self.assertLessEqual(libraries, set(components))
        dependencies = json.loads((ROOT / "web/package.json").read_text())["dependencies"]
        self.assertLessEqual(set(dependencies) - {"addnorm"}, set(components))
        for component in components.values():
            self.assertTrue(component["version"] and component["licenses"], component)

    def test_sbom_is_the_same_each_time(self):
        self.assertEqual(run("sbom"), run("sbom"))

    def test_notices_hold_the_licences(self):
        for product in "page", "wheel":
            notices = run("notices", product)
            for phrase in "Apache", "Mozilla Public License", "Permission is hereby granted, free of charge":
                self.assertIn(phrase, notices, product)


if __name__ == "__main__":
    unittest.main()
