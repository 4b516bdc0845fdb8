"""Limits that many parts of the hub apply: rates and numbers of times. Their policies are where they apply."""
