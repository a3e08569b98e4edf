#!/usr/bin/env python3
"""Lists the third-party code in our products.

    scripts/third_party.py sbom                                 all components, as CycloneDX 1.5 in JSON
    scripts/third_party.py notices {page|wheel|cuda-wheel}      the licences that must accompany a product

Versions and licence texts are those of the installed Debian packages and of web/package-lock.json.
"""

import base64
import functools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Debian packages: the licence, and the products that contain their code. "program" only loads shared libraries.
DEBIAN = {
    "libcli11-dev": ("BSD-3-Clause", {"program", "wheel"}),
    "libdnnl-dev": ("Apache-2.0", {"program"}),
    "libeigen3-dev": ("MPL-2.0", {"program", "page", "wheel"}),
    "libfmt-dev": ("MIT", {"program", "page", "wheel", "cuda-wheel"}),
    "libhwy-dev": ("Apache-2.0 OR BSD-3-Clause", {"program", "page", "wheel"}),
    "libmicrohttpd-dev": ("LGPL-2.1-or-later", {"program"}),
    "nlohmann-json3-dev": ("MIT", {"program", "page", "wheel"}),
    "libc++-19-dev-wasm32": ("Apache-2.0 WITH LLVM-exception", {"page"}),
    "libclang-rt-19-dev-wasm32": ("Apache-2.0 WITH LLVM-exception", {"page"}),
    "wasi-libc": ("Apache-2.0 WITH LLVM-exception AND MIT", {"page"}),
    "libgomp1": ("GPL-3.0-or-later WITH GCC-exception-3.1", {"program", "wheel"}),
    "libstdc++6": ("GPL-3.0-or-later WITH GCC-exception-3.1", {"program", "wheel", "cuda-wheel"}),
}


@functools.cache
def versions():
    """Returns the versions of the installed packages."""
    query = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *DEBIAN], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    return dict(line.split() for line in query.stdout.splitlines() if " " in line.strip())


def debian_component(package):
    licence, products = DEBIAN[package]
    version = versions()[package]
    return {"type": "library", "name": package, "version": version,
            "licenses": [{"expression": licence}],
            "purl": f"pkg:deb/debian/{package.replace('+', '%2B')}@{version}",
            "properties": [{"name": "addnorm:in", "value": product} for product in sorted(products)]}


def npm_components():
    """Yields the npm packages that the page is bundled from: those that are not only for development."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    for path, package in lock["packages"].items():
        if not path.startswith("node_modules/") or package.get("dev") or package.get("link"):
            continue
        name = path.removeprefix("node_modules/")
        algorithm, digest = package["integrity"].split("-", 1)
        yield {"type": "library", "name": name, "version": package["version"],
               "licenses": [{"expression": package["license"]}],
               "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
               "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": base64.b64decode(digest).hex()}],
               "properties": [{"name": "addnorm:in", "value": "page"}]}


def sbom():
    version = re.search(r"project\(addnorm VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    components = [debian_component(package) for package in versions()]
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                       "metadata": {"component": {"type": "application", "name": "addnorm", "version": version,
                                                  "licenses": [{"license": {"id": "Apache-2.0"}}],
                                                  "purl": f"pkg:generic/addnorm@{version}"}},
                       "components": sorted([*components, *npm_components()], key=lambda c: c["purl"])}, indent=1)


def notices(product):
    packages = [package for package, (_, products) in DEBIAN.items() if product in products and package in versions()]
    texts = [f"{package} {versions()[package]}\n\n{pathlib.Path(f'/usr/share/doc/{package}/copyright').read_text()}"
             for package in packages]
    return ("\n" + "-" * 100 + "\n\n").join(["This product holds code of these works, under the licences below.\n", *texts])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sbom"]:
            print(sbom())
        case ["notices", ("page" | "wheel" | "cuda-wheel") as product]:
            print(notices(product))
        case _:
            sys.exit(__doc__)
