"""Why does speculation not pay? The ordered diagnosis, from measurements made once: each step a number, a threshold, and what to change.

``measurements`` holds what is known, ``examine`` measures it on a pair, ``from_run`` reads it from a run folder; one file a step
looks at it, ``diagnosis`` puts the steps in order, ``bands`` holds the published advice against it, ``show`` says it.
"""
