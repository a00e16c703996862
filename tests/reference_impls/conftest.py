"""One thread for every test of the reference systems: on small networks a second one only waits."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
