"""The process of ogata_hawkes.py with one line wrong: a gap forgets the time spent on thinned candidates."""

import numpy as np

from tppsd_bench import Declaration, EventBatch, SampleRun, Scores, UniformStreams

BASE, DECAY = np.array([0.4, 0.2]), 1.5
JUMP = np.array([[0.6, 0.3], [0.2, 0.5]])  # an event of type j raises the intensity of type k by JUMP[j, k]


class Hawkes:
    n_types = 2
    declares = Declaration("target_only", batch_independent=True, reproducible=True, name="Ogata thinning")

    def score(self, batch):
        """The law: the intensity at each event, and the compensator over the gap before it."""
        gaps, types = batch.padded()
        excitation, compensator, intensity = np.zeros((len(batch), 2)), np.empty_like(gaps), np.empty((*gaps.shape, 2))
        for i, (gap, kind) in enumerate(zip(gaps.T, types.T, strict=True)):
            faded = excitation * np.exp(-DECAY * gap)[:, None]
            mass = BASE.sum() * gap + (excitation - faded).sum(axis=1) / DECAY
            compensator[:, i], intensity[:, i], excitation = mass, BASE + faded, faded + JUMP[kind]
        return Scores.from_intensity(intensity[batch.mask], compensator[batch.mask])

    def sample(self, request):
        """Candidates at the intensity of the moment, which only falls until the next event; thinned to the true one."""
        n, limit = request.n_sequences, request.stop.n_events
        uniforms, excitation = UniformStreams(request.key, n, request.first_sequence), np.zeros((n, 2))
        gaps, types, count = np.zeros((n, limit)), np.zeros((n, limit), dtype=np.int64), np.zeros(n, dtype=np.int64)
        while len(row := np.flatnonzero(count < limit)):
            u, bound = uniforms.take(row, 2), BASE.sum() + excitation[row].sum(axis=1)
            wait = -np.log(u[:, 0]) / bound
            gaps[row, count[row]] = wait
            excitation[row] *= np.exp(-DECAY * wait)[:, None]
            kind = ((BASE + excitation[row]).cumsum(axis=1) <= u[:, 1:] * bound[:, None]).sum(axis=1)
            row, kind = row[kind < 2], kind[kind < 2]  # 2: beyond the true intensity, thinned
            types[row, count[row]] = kind
            excitation[row] += JUMP[kind]
            count[row] += 1
        return SampleRun(EventBatch(gaps.ravel(), types.ravel(), count, 2))
