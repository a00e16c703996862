"""From a suite to a run folder: plan, cells, execution, and the sentences at the end."""
