"""The pages about calls: what ran and runs, statistics, who used what, and the events that keep a page current."""
