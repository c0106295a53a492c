"""What the stages stand on: contracts, errors, the lake, Ray jobs, and the trainer's side."""
