"""The table of all routes with the schemas of their answers, and the OpenAPI document made from it."""
