"""What a sampler gains: exact counts first, acceptance by position, paired times, and the throughput law that links them."""
