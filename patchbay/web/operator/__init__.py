"""The operator: login, the permission to change the hub, and the pages that only the operator has."""
