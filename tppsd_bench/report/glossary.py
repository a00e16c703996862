"""The words of the report, for a reader who knows sequence models but not this suite."""

from __future__ import annotations

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "acceptance",
        "Share of drafted events kept by verification, gap and type both, given that their position in the round was reached.",
    ),
    ("bonus event", "The event drawn from the target itself after all K drafted events of a round were accepted."),
    (
        "could still hide",
        "Minimum detectable effect: a fault smaller than this would escape a run of this size more than one time in twenty.",
    ),
    (
        "draft",
        "The cheap model that proposes events. The stress draft is a deliberately poor one: "
        "exactness may not depend on it, and faults show far sooner.",
    ),
    (
        "e-process",
        "Bets against exactness, made before each event and settled after it, that start from a wealth of 1. On an exact sampler no "
        "choice of bets gains on average, so a large wealth is proof, whenever one looks.",
    ),
    ("ECDF band", "A range around 0 that holds the whole curve of an exact sampler in 95 of 100 runs."),
    (
        "events to detection",
        "Events after which the e-process, a bet against exactness that may be watched all the time, has proven a fault.",
    ),
    (
        "exact",
        "The sequences have the law of the target model: no test at this size tells them "
        "apart, and every primary effect lies inside its margin.",
    ),
    (
        "five verdicts",
        "Validity: the evidence can be trusted. Law: the sequences follow the target. "
        "Mechanism: the sampler does what its declared rule says. Efficiency: target "
        "forwards per event. Speed: time. They are never merged.",
    ),
    ("gap", "Time from one event to the next."),
    (
        "inconclusive",
        "Nothing was found, but this run is too small to bound every primary effect by its "
        "margin; the verdict says what size would do.",
    ),
    (
        "invalid",
        "A precondition of the target fails (its density does not integrate to one, it sees "
        "the future, …), so no test can say anything.",
    ),
    ("K", "Number of events the draft proposes in a round."),
    ("KS distance", "Largest vertical distance between two cumulative distributions."),
    ("λ", "Share of the draft's law left in the output: 0 is the target, 1 the draft."),
    (
        "margin δ",
        "Size below which a difference does not matter; set by the number of events before "
        "the run. Significant and large are different questions.",
    ),
    (
        "PIT",
        "Probability integral transform: each gap (or type) pushed through the target's own "
        "conditional distribution. Under exactness the values are independent and uniform.",
    ),
    ("residual", "The law proportional to (p − q)₊, from which a rejected gap or type is redrawn."),
    ("resolution", "Smallest dose of a fault from which on at least 95 % of the runs are caught."),
    (
        "speedup",
        "Time per committed event of a target-only baseline over that of the speculative "
        "sampler, from interleaved pairs of runs. The cached baseline is the honest one; the "
        "recomputing one is what published code does.",
    ),
    ("target", "The model whose law is to be sampled: the network in its declared dtype, scored by teacher forcing."),
    (
        "θ₁ … θ₄",
        "Means of the first four Legendre scores of the PIT: location, scale, skew and "
        "kurtosis of the departure from the target.",
    ),
    (
        "TV",
        "Total variation distance. Between target and draft: the share of proposals that exact verification has to reject. Between "
        "a sampler and its target: the largest difference that any event's probability can show.",
    ),
    ("type", "The mark of an event, one of finitely many."),
)

LEAD_WORDS = {
    "pass": "Exact",
    "fail": "Not exact",
    "mechanism": "Mechanism broken",
    "invalid": "Invalid evidence",
    "inconclusive": "Undecided",
    "incomplete": "Incomplete",
    "broken": "Broken",
    "none": "Not tested",
}
"""The one-word answer to "is it exact", worst last in a reader's mind, first on the page."""
