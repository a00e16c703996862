"""Where the CPU time of a round goes, and how much of it is matrix products: ``python -m reference_impls.anatomy --pair NAME``.

Four runs of one sampler at the same seeds, none of which the sampler knows of: plain (timed), with its methods wrapped (``phases``), with
every matrix product written down (``products``), and traced line by line (``lines``). Products are then done again alone, their time is set
against the plain run's. ``measure.anatomy`` puts them together and checks that they belong together.
"""
