"""Text to tokens and back: characters, bytes, and BPE or unigram trained on the spot. See `base`."""
