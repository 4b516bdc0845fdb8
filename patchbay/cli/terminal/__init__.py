"""What commands write for people and ask them: messages, failures, progress, answers to questions, secret values."""
