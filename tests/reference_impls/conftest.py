"""One thread for every test of the reference systems: on small networks a second one only waits."""

from __future__ import annotations

from reference_impls.instrument import pin_threads

pin_threads(1)
