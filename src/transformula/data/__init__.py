"""From files to batches: sources and formats, the split, the token store, the order of windows.

Read in this order: `settings`, `sources`, `splits`, `prepare`, `tokens`, `order`, `windows`;
for rows with several fields `records`, `pictures`, `hub`, `pair_set`, `held_out`, `pairs`, `buckets`.
"""
