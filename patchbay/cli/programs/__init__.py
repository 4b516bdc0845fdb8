"""What programs may do that commands start or mount: options, questions, and a trial."""
