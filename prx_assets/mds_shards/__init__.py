"""Stage: bucketed MDS shards."""
