"""Environments with the packages that Python definitions require, made by uv and kept by CID.

requirements.py   what a definition requires: its block `# /// script`, and the field `requirements`
imports.py        imports that no package provides, with the lines to add
installation.py   makes one environment with uv
environment.py    one environment as the hub sees it: absent, being made, ready or failed
environments.py   all environments of a data folder
activation.py     a worker process uses an environment
"""
