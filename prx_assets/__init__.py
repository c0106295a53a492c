"""The stages of a text-to-image data platform as Dagster assets, and their jobs on Ray."""
