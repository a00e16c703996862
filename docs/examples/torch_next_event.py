"""A torch model of the next event, its own speculative sampler, and the adapter that has the sampler certified.

The first two parts stand for what you have: a recurrent network with a log-normal mixture over gaps and a softmax over types, and
a sampler in batches, with torch's random numbers. The third part, the adapter, is all that is written for certify.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import logsumexp, ndtr

from tppsd_bench import Declaration, LawRows, LawTarget, TraceBuilder, stopped

# -- the model ------------------------------------------------------------------------------------------------------------
HIDDEN, COMPONENTS, TYPES, K = 16, 3, 3, 4
torch.set_num_threads(1)  # more make small networks slower


class NextEvent(torch.nn.Module):
    """History -> mixture over log gaps and type logits; float32 inside, the law itself in float64."""

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRU(1 + TYPES, HIDDEN, batch_first=True)
        self.head = torch.nn.Linear(HIDDEN, 3 * COMPONENTS + TYPES)

    def states(self, gaps, types, before):
        """States after each event of (n, L) histories that begin in the state ``before`` (n, H)."""
        features = torch.cat([gaps.log().clamp(-9, 9)[..., None] / 3, torch.eye(TYPES)[types]], dim=-1).float()
        return self.cell(features, before[None])[0]

    def law(self, state):
        """(location, scale, log weight) of the mixture over log gaps, (..., C) each, and type log probabilities (..., M)."""
        a, b, c, d = self.head(state).double().split([COMPONENTS] * 3 + [TYPES], dim=-1)
        spread = torch.linspace(-1.5, 1.0, COMPONENTS, dtype=torch.float64)
        return spread + a, 0.6 * torch.exp(0.3 * torch.tanh(b)), c.log_softmax(-1), d.log_softmax(-1)


def make_networks(seed=1):
    """A target with random weights, large enough for history to matter, and a draft that is a blurred copy of it."""
    torch.manual_seed(seed)
    target, draft = NextEvent(), NextEvent()
    for weights in target.parameters():
        torch.nn.init.normal_(weights, std=0.6)
    draft.load_state_dict({name: w + 0.15 * torch.randn_like(w) for name, w in target.state_dict().items()})
    return target.requires_grad_(False), draft.requires_grad_(False)


# -- the sampler ----------------------------------------------------------------------------------------------------------
def gap_log_density(law, gap):
    z = (gap.log()[..., None] - law[0]) / law[1]
    return (law[2] - 0.5 * z**2 - law[1].log()).logsumexp(-1) - 0.5 * math.log(2 * math.pi) - gap.log()


def draw(law, rng):
    """A gap and a type for each row."""
    component = torch.multinomial(law[2].exp(), 1, generator=rng)
    noise = torch.randn(component.shape, generator=rng, dtype=torch.float64)
    gap = (law[0].gather(-1, component) + law[1].gather(-1, component) * noise).exp().squeeze(-1)
    return gap, torch.multinomial(law[3].exp(), 1, generator=rng).squeeze(-1)


def accept(log_p, log_q, rng):
    return torch.rand(log_p.shape, generator=rng, dtype=torch.float64).log() < log_p - log_q


def replace_rejected(p, q, gap, kind, gap_ok, rng):
    """The event at the first rejection: its gap from (p - q)+ and its type from p, or its type alone from (p - q)+."""
    todo = ~gap_ok
    while todo.any():  # from p, kept with probability 1 - q/p: the normalised (p - q)+
        new_gap, new_kind = draw(p, rng)
        kept = ~accept(gap_log_density(q, new_gap), gap_log_density(p, new_gap), rng) & todo
        gap, kind, todo = torch.where(kept, new_gap, gap), torch.where(kept, new_kind, kind), todo & ~kept
    rest = (p[3].exp() - q[3].exp()).clamp(min=0) + 1e-300
    return gap, torch.where(gap_ok, torch.multinomial(rest, 1, generator=rng).squeeze(-1), kind)


def speculate(target, draft, n, finished, k, rng):
    """``n`` sequences until ``finished(n_events (n,), times (n,))`` is true of all; k = 0 is target-only sampling.

    Returns gaps and types (n, L), how many columns of each row count (n,), and what was verified in each round.
    """
    gaps, types, rounds, rows = torch.ones(n, 64).double(), torch.zeros(n, 64, dtype=torch.long), [], torch.arange(n)
    count, times, h, g = torch.zeros(n, dtype=torch.long), torch.zeros(n).double(), *torch.zeros(2, n, HIDDEN)
    while not finished(count, times).all():
        if count.max() + k + 1 >= gaps.shape[1]:
            gaps, types = torch.cat([gaps, torch.ones_like(gaps)], 1), torch.cat([types, torch.zeros_like(types)], 1)
        q_states, q_laws, events = [g], [], []
        for _ in range(k):
            q_laws.append(draft.law(q_states[-1]))
            events.append(draw(q_laws[-1], rng))
            q_states.append(draft.states(events[-1][0][:, None], events[-1][1][:, None], q_states[-1])[:, 0])
        drafted = [torch.stack(x, 1) for x in zip(*events, strict=True)] or [torch.empty(n, 0).double(), types[:, :0]]
        p_states = torch.cat([h[:, None], target.states(*drafted, h)], 1) if k else h[:, None]
        p = target.law(p_states)
        q = [torch.stack(x, 1) for x in zip(*q_laws, strict=True)] or [x[:, :0] for x in p]
        first = [x[:, :k] for x in p]
        log_p, log_q = gap_log_density(first, drafted[0]), gap_log_density(q, drafted[0])
        type_p, type_q = (x[3].gather(-1, drafted[1][..., None]).squeeze(-1) for x in (first, q))
        gap_ok, type_ok = accept(log_p, log_q, rng), accept(type_p, type_q, rng)
        done = (gap_ok & type_ok).long().cumprod(1).sum(1)
        gap, kind = draw([x[rows, done] for x in p], rng)  # the bonus event, where nothing is rejected
        some = done < k
        if some.any():
            at = rows[some], done[some]
            refused = [x[at] for x in (*drafted, gap_ok)]
            gap[some], kind[some] = replace_rejected([x[at] for x in p], [x[at] for x in q], *refused, rng)
        for j in range(k + 1):
            new = rows[j <= done]
            last = (j == done)[new]
            at = new, count[new] + j
            gaps[at] = torch.where(last, gap[new], drafted[0][new, min(j, k - 1)] if k else gap[new])
            types[at] = torch.where(last, kind[new], drafted[1][new, min(j, k - 1)] if k else kind[new])
        kept = torch.arange(k) < done[:, None]
        times, count = times + (drafted[0] * kept).sum(1) + gap, count + done + 1
        h = target.states(gap[:, None], kind[:, None], p_states[rows, done])[:, 0]
        g = draft.states(gap[:, None], kind[:, None], torch.stack(q_states, 1)[rows, done])[:, 0]
        rounds.append({
            "sequence": rows, "gaps": drafted[0], "log_p": log_p, "log_q": log_q, "accepted": gap_ok,
            "types": drafted[1], "type_log_p": type_p, "type_log_q": type_q, "type_accepted": type_ok,
        })  # fmt: skip
    return gaps, types, count, rounds


# -- the adapter ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Law(LawRows):
    """Rows of mixtures: location, scale, log weight (n, C) and type logits (n, M)."""

    loc: np.ndarray
    scale: np.ndarray
    log_weight: np.ndarray
    logits: np.ndarray

    def z(self, gap):
        return (np.log(gap)[..., None] - self.loc[:, None]) / self.scale[:, None]

    def gap_log_density(self, gap):
        inside = self.log_weight[:, None] - 0.5 * self.z(gap) ** 2 - np.log(self.scale[:, None])
        return logsumexp(inside, axis=-1) - 0.5 * np.log(2 * np.pi) - np.log(gap)

    def gap_cdf(self, gap):
        return (np.exp(self.log_weight[:, None]) * ndtr(self.z(gap))).sum(axis=-1)

    def gap_survival(self, gap):
        return (np.exp(self.log_weight[:, None]) * ndtr(-self.z(gap))).sum(axis=-1)

    def type_logits(self, gap):
        return self.logits[:, None]


class Teacher(LawTarget):
    """A network as a law: each event of finished sequences given the events before it."""

    n_types = TYPES

    def __init__(self, network):
        self.network = network

    def conditionals(self, batch):
        gaps, types = (torch.from_numpy(x) for x in batch.padded(fill_gap=1.0))
        start = torch.zeros(len(batch), 1, HIDDEN)
        states = torch.cat([start, self.network.states(gaps, types, start[:, 0])], 1)[:, :-1]
        return Law(*(x.numpy() for x in self.network.law(states[torch.from_numpy(batch.mask)])))


class Sampler:
    """``speculate`` on request, with a trace of what it verified."""

    def __init__(self, k=K):
        rule = "leviathan_two_step" if k else "target_only"
        self.k, self.declares = k, Declaration(rule, reproducible=True, name=f"GRU, K = {k}")

    def sample(self, request):
        rng = torch.Generator().manual_seed(int(request.key.generator(request.first_sequence).integers(2**62)))
        *columns, rounds = speculate(TARGET, DRAFT, request.n_sequences, request.stop.reached, self.k, rng)
        trace = TraceBuilder()
        for verified in rounds:
            trace.round(**verified)
        return trace.run(stopped(*columns, request.stop, TYPES))


TARGET, DRAFT = make_networks()


def make_sampler():
    return Sampler(), Teacher(TARGET), Teacher(DRAFT), Sampler(k=0)
