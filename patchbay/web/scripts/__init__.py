"""The pages of scripts: the field to try one, and the runs with their calls, what they wait for, and answers to it."""
