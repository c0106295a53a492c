"""Stage: visual, text or nsfw, from the caption."""
