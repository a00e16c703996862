"""What a regression gate judges: exact counts, the law with its effects, and speed, in sizes that fit a continuous integration."""
