"""Text to tokens and back: characters, bytes, and a BPE trained on the spot. One file a kind; see `base`."""
