"""Every threshold of the diagnosis, with its source. Claims are numbered as in ``docs/doctor.md``."""

from __future__ import annotations

from typing import Final

ACCEPTANCE_WEAK: Final = 0.50
"""Claim 5: below 50 % the draft is too weak. Lower, acceptance is *low*."""
ACCEPTANCE_IDEAL: Final = (0.60, 0.80)
"""Claim 5: 60 to 80 % is ideal. A draft below that is the first suspect where speculation does not pay."""
ACCEPTANCE_RAISE_K: Final = 0.90
"""Claim 5: above 90 % raise K."""

K_START: Final = (4, 8)
"""Claim 4: 4 to start, 4 to 8 is right."""
K_SHORT: Final = (3, 5)
"""Claim 5: histories below 100 events."""
K_LONG: Final = (8, 10)
"""Claim 5: histories above 1,000 events."""
SHORT_HISTORY: Final = 100
LONG_HISTORY: Final = 1000
ACCEPTED_FEW: Final = 0.5
"""Claim 4: mean accepted below K/2: shorten K or train the draft."""
ACCEPTED_NEAR: Final = 0.8
"""Claim 4 says *near K*; read here as 0.8 K or more."""
K_REGRET: Final = 0.10
"""Share of the best K's speed that the K in use may lose. Ours: a tenth is more than the law itself is off."""
ADVICE_LOSS: Final = 0.05
"""Advice is contradicted where following it costs this share of the speed, or more. Ours: the law's aim of 5 % (step 4)."""

OPEN_BUCKET: Final = 0.05
"""Mass of the open last bucket, where gaps follow a fitted tail. Ours; claim 6 says *too few crowd events on edges*."""
FULLEST_BUCKET: Final = 0.25
"""Mass of the fullest bucket after a history, on average: four bits of time at least. Ours; claim 6, as above."""
EDGE_ATOMS: Final = 1e-3
"""Share of gaps that lie on an edge or middle; a law with a density has about 1e-9. Claim 6."""
BUCKETS: Final = (50, 200)
"""Claim 6: 50 to 200 buckets."""

SELF_DIFFERENCE: Final = 0.05
"""A/A: a sampler that differs from itself by more allows no verdict. The suites' own limit."""
LAW_MISS: Final = 0.10
"""Relative miss of the law's prediction that calls for an explanation. The aim is 5 % for nine cells in ten; single machines are noisier."""

DRAFT_SHARE: Final = 0.20
"""Claim 2: the draft costs 20 % of a round, the target 80 %."""
PARAMETER_RATIO: Final = 0.10
"""Claim 2: the draft has under a tenth of the target's parameters."""

HISTORY_GROWTH: Final = 3.0
"""Cost of a target step after 1,000 events over that after 100: beyond, something is encoded anew. Ours, after the cached baseline's aim
of 3 from 1,000 to 10,000 events."""
HISTORY_FADE: Final = 0.05
"""Acceptance lost from the first to the last third of a sequence. Ours: the least that claim 9 promises for a better draft."""

CACHE_GAIN: Final = 1.5
"""Cached over recomputing target-only sampling; below, the cache does nothing. Ours; claim 10 says that it matters most."""
POSITIONS_PER_PASS: Final = 1.5
"""Times the K + 1 positions that a verifying pass of a cached target encodes. Beyond, the history is encoded again."""

REST_SHARE: Final = 0.35
"""Of a round, outside draft and target passes. The samplers' own aim at batch 1."""
BATCH_ADVISED: Final = (4, 8)
"""Claim 5: verify 4 to 8 sequences in a batch."""

ACCURACY_POINTS: Final = 0.02
"""Next-event type accuracy of the draft may lie this much below the target's and still count as its equal. Ours."""
GAP_ERROR_SHARE: Final = 0.02
"""The same for the error of the predicted gap, relative to the target's. Ours."""
