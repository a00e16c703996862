"""Where the jobs of a plan are done: in processes of this machine (``local``), or on the workers of a Dask cluster (``cluster``)."""
