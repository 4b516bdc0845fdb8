"""A toolset: a server made of chosen entries of other servers, renamed and described as its configuration says."""
