"""From files to batches.

Read in this order: `format` (a reader a format), `sources` (what a name stands for), `records` and `corpus` (rows with
several fields, or one), `splits`, `tokenizing`; then `prepare`, `windows` for texts, and
`source_target`, `encoded`, `buckets` for rows with a source and a target.
"""
