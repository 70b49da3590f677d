"""How fast the leak scan is, on text without findings. Run by `python` it prints plain figures."""

import base64
import json
import random
import time

import pytest

from hardpoint.output.leaks import LeakScanner

SIZE = 8_000_000
SECRETS = {f"name{n}": f"quarry/{random.Random(n).getrandbits(80):x}+~" for n in range(20)}


def clean_texts():
    """Texts without findings, of the kinds that tools return."""
    rng = random.Random(5)
    record = {"name": "item", "path": "/a/b", "url": "https://example.com/1", "token_count": 3}
    log = "2024-05-01 12:00:00,123 INFO app: GET /index.html 200 12ms user=ana\n"
    units = {
        "prose": "lorem ipsum dolor sit amet, consectetur adipiscing elit ",
        "log": log,
        "json": json.dumps(record),
    }
    texts = {name: (unit * (SIZE // len(unit))).encode() for name, unit in units.items()}
    texts["base64"] = base64.b64encode(rng.randbytes(SIZE * 3 // 4))
    return texts


SCANNERS = {"providers": LeakScanner(), "and 20 secrets": LeakScanner(SECRETS)}


@pytest.mark.parametrize("secrets", SCANNERS)
@pytest.mark.parametrize(("name", "text"), clean_texts().items(), ids=lambda value: str(value)[:9])
def test_clean_text(benchmark, secrets, name, text):
    scanner = SCANNERS[secrets]
    assert benchmark.pedantic(scanner.scan, (text,), rounds=3) == ()
    benchmark.extra_info["MB/s"] = round(len(text) / benchmark.stats["min"] / 1e6)


def test_short_text(benchmark):
    assert benchmark(SCANNERS["providers"].scan, "It is sunny, 21 degrees, with a breeze.") == ()


def main():
    for secrets, scanner in SCANNERS.items():
        for name, text in clean_texts().items():
            spent = []
            for _ in range(3):
                begin = time.process_time()
                scanner.scan(text)
                spent.append(time.process_time() - begin)
            print(f"{name:8} {secrets:15} {len(text) / min(spent) / 1e6:6.0f} MB/s")


if __name__ == "__main__":
    main()
