"""One wiring in every family: a text of one stack as an encoder, or as an encoder and a decoder."""
