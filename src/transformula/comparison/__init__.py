"""Is A better than B? Variants of a model, trained alike with paired seeds and a learning rate tuned for each."""
