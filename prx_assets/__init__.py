"""The stages of a text-to-image data platform as Dagster assets, and the jobs they launch on Ray."""
