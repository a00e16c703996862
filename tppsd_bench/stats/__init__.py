"""The statistics: pure functions from arrays (and an explicit generator) to frozen evidence.

One module a family. The registry of ``base`` lists every statistic of the grey-box battery with its null distribution, its
smallest detectable effect and the number of events an effect needs. Importing this package imports none of them.
"""
