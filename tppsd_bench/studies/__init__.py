"""Studies: questions a suite asks besides "is it exact?", each a folder with table, jobs, run and section (see ``base``)."""
