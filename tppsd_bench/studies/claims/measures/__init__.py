"""What decides a claim: one short module a measure, each with ``Settings`` and ``measure(context, settings) -> Measured``."""
