"""Pages and checks for the operator: login, changes, editing, inspecting and revoking."""
