"""Static embeddings: texts as vectors, and the texts nearest to a question, without a service."""
